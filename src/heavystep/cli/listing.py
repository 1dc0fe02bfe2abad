"""Lists of names in an option: with commas between them, or the option given again."""


def listed(option: str, texts: list[str] | None) -> tuple[str, ...]:
    """The names; none if the option was not given.

    Args:
        option: what it is called, for the message.
        texts: its values.

    Raises:
        ValueError: it was given, and names nothing.

    >>> listed("--methods", ["SPS, SLS", "NGN"]), listed("--methods", None)
    (('SPS', 'SLS', 'NGN'), ())
    """
    names = tuple(name.strip() for text in texts or () for name in text.split(",") if name.strip())
    if texts and not names:
        raise ValueError(f"{option} names none: leave it out for the usual ones")
    return names
