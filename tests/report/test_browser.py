"""The page in a real browser: curves are there, buttons and keys work, nothing complains."""

import numpy as np
import pytest

from heavystep.report.page import write_report
from tests.helpers.browser import browser, complaints, needs_browser
from tests.helpers.results_folder import HOSTILE, comparison, falling, specification, write_run

pytestmark = [pytest.mark.slow, needs_browser]
SIZES = [(1280, False), (1280, True), (390, False), (390, True)]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = comparison(tmp_path_factory.mktemp("results"))
    write_run(
        folder, specification(HOSTILE, problem=HOSTILE), {**falling(), HOSTILE: falling()["loss"]}
    )
    write_run(folder, specification("SPS", problem="w8a"), falling())
    write_report(folder, folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="module")
def window(page):
    with browser() as driver:
        driver.get(page.as_uri())
        yield driver


@pytest.fixture
def opened(window, page):
    """The page as it is at first."""
    window.get(page.as_uri())
    yield window
    assert complaints(window) == []


def panel(driver, title="a9a"):
    """A panel, once it is drawn: the browser does that when it comes near the screen."""
    from selenium.webdriver.support.ui import WebDriverWait

    panels = driver.find_elements("css selector", ".panel")
    (found,) = [p for p in panels if p.find_element("css selector", "h3").text == title]
    driver.execute_script("arguments[0].scrollIntoView()", found)
    WebDriverWait(driver, 30).until(lambda _: found.find_elements("css selector", ".seeds, .help"))
    return found


def lines(place):
    return place.find_elements("css selector", "path.line")


def drawn(place):
    return {line.get_attribute("data-label"): line.get_attribute("d") for line in lines(place)}


def button(place, text):
    (found,) = [b for b in place.find_elements("css selector", "button") if b.text == text]
    return found


@pytest.mark.parametrize(("width", "dark"), SIZES, ids=lambda value: str(value))
def test_curves_are_visible_and_nothing_is_cut_off(page, width, dark):
    with browser(width=width, dark=dark) as driver:
        driver.get(page.as_uri())
        place = panel(driver)
        assert set(drawn(place)) == {"SHBPolyak, c 0.5", "SHBPolyak, c 1", "SPS"}
        for line in lines(place):
            assert line.is_displayed()
            assert line.rect["width"] > width / 3
            assert line.rect["height"] > 20
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        back = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        red = int(back.split("(")[1].split(",")[0])
        assert (red < 80) == dark
        assert complaints(driver) == []


def test_a_method_can_be_hidden_and_shown(opened):
    place = panel(opened)
    toggle = button(place, "SPS")
    toggle.click()
    assert toggle.get_attribute("aria-pressed") == "false"
    assert "SPS" not in drawn(place)
    toggle.click()
    assert "SPS" in drawn(place)
    button(place, "None").click()
    assert not lines(place)
    assert "No method is shown" in place.text


def test_a_method_has_the_same_colour_in_every_panel(opened):
    (alone,) = lines(panel(opened, "w8a"))
    colours = {
        line.get_attribute("data-label"): line.get_attribute("stroke")
        for line in lines(panel(opened))
    }
    assert colours["SPS"] == alone.get_attribute("stroke")
    assert len(set(colours.values())) == len(colours) > 1


def test_seeds_one_by_one(opened):
    place = panel(opened)
    before = drawn(place)
    button(place, "1").click()
    assert drawn(place)["SPS"] != before["SPS"]  # seed 0 alone, and not the median of two
    button(place, "1").click()
    button(place, "Each seed").click()
    assert len(lines(place)) == 2 * 3


def test_axes(opened):
    place = panel(opened)
    before = drawn(place)
    assert button(place, "Log y").get_attribute("aria-pressed") == "true"
    button(place, "Log y").click()
    assert drawn(place) != before
    button(place, "Log y").click()
    assert drawn(place) == before
    button(place, "Log x").click()
    assert drawn(place) != before


def straightness(path):
    """How far the points of a path are from a line through its ends, in pixels."""
    points = [tuple(map(float, part.split())) for part in path[1:].split("L")]
    (x0, y0), (x1, y1) = points[0], points[-1]
    return max(abs(y0 + (y1 - y0) * (x - x0) / (x1 - x0) - y) for x, y in points)


def test_an_exponential_is_straight_on_a_logarithmic_axis(opened):
    """Points are written with one decimal, and the numbers with five digits."""
    place = panel(opened)
    if button(place, "Log x").get_attribute("aria-pressed") == "true":
        button(place, "Log x").click()
    assert straightness(drawn(place)["SPS"]) < 0.3
    button(place, "Log y").click()
    assert straightness(drawn(place)["SPS"]) > 30


def test_keys_and_the_mouse_zoom(opened):
    from selenium.webdriver import ActionChains, Keys

    place = panel(opened)
    chart = place.find_element("css selector", ".chart")
    before = drawn(place)
    opened.execute_script("arguments[0].focus()", chart)
    for key in ("+", Keys.ARROW_LEFT, Keys.ARROW_UP, "-"):
        now = drawn(place)
        chart.send_keys(key)
        assert drawn(place) != now, key
    chart.send_keys("0")
    assert drawn(place) == before
    opened.execute_script("arguments[0].scrollIntoView({block: 'center'})", chart)
    chain = ActionChains(opened)
    chain.move_to_element_with_offset(chart, -100, -60).click_and_hold()
    chain.move_by_offset(160, 90).release().perform()
    assert drawn(place) != before
    ActionChains(opened).double_click(chart).perform()
    assert drawn(place) == before
    ActionChains(opened).move_to_element(lines(place)[0]).perform()
    assert " at step " in place.find_element("css selector", ".readout").text


def test_every_control_is_reached_by_the_keyboard(opened):
    reached = opened.execute_script(
        "return [...document.querySelectorAll('button, select, summary, .chart')]"
        ".filter(e => e.tabIndex < 0).length"
    )
    assert reached == 0
    unnamed = opened.execute_script(
        "return [...document.querySelectorAll('button, .chart')]"
        ".filter(e => !(e.textContent.trim() || e.getAttribute('aria-label'))).length"
    )
    assert unnamed == 0


def test_another_metric(opened):
    place = panel(opened)
    before = drawn(place)
    select = place.find_element("css selector", "select")
    (option,) = [o for o in select.find_elements("css selector", "option") if o.text == "step"]
    option.click()
    assert drawn(place) != before


def test_a_theme_can_be_chosen(opened):
    back = "return getComputedStyle(document.body).backgroundColor"
    theme = opened.find_element("id", "theme")
    seen = []
    for _ in range(3):
        theme.click()
        seen.append(opened.execute_script(back))
    assert seen[0] == seen[2] != seen[1]


def test_hostile_names_are_words(opened):
    place = panel(opened, HOSTILE)
    assert HOSTILE in place.text
    assert not opened.find_elements("css selector", "img")


def test_the_full_size_of_figure1(tmp_path):
    """28 methods, 20 seeds, all metrics: about a million numbers, and no curve is thinned."""
    k = np.unique(np.geomspace(1, 1e6, 200).astype(int))
    rng = np.random.default_rng(0)
    names = (
        "gap_average",
        "gap_last",
        "best",
        "best_after",
        "grad_last",
        "lowest",
        "highest",
        "trials",
    )
    for number in range(28):
        spec = specification(
            problem=f"p{number // 7}", seeds=20, iterations=10**6, momentum=number / 100
        )
        write_run(tmp_path, spec, {name: rng.random((20, len(k))) / k for name in names}, k=k)
    write_report(tmp_path, tmp_path / "report.html")
    with browser() as driver:
        driver.get((tmp_path / "report.html").as_uri())
        assert len(lines(panel(driver, "p0"))) == 7
        assert not driver.find_elements("css selector", "p.note")
        assert complaints(driver) == []
