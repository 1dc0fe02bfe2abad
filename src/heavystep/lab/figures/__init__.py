"""Figures of the paper: a module each, with the same names.

``figures(...)`` is the definition: the paper's figure first, then its companions, from what the
user chose. Data are read, so that their faults are told first, and nothing is written. ``QUICK``
are the choices with ``--quick``. ``results(runs, folder, progress, ...)`` reads the runs that are
in a folder and makes the others. ``pictures(figure, results)`` are the pictures by the names of
their files, ``claims(figure, results)`` the claims about the paper's figure, and ``table(figure,
results)``, if there is one, the numbers.
"""
