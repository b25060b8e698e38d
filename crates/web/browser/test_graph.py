"""The graph of a run: pan, zoom, and live updates in the place that the reader has chosen."""

import pytest
from playwright.sync_api import expect
from test_pages import open_page, picture


@pytest.fixture
def wide(server):
    """A run of a long chain of tasks, whose first task waits for a file."""
    release = server.directory / "release-wide"
    tasks = [f"  t0: {{ run: 'until [ -e {release} ]; do sleep 0.1; done' }}"]
    tasks += [f"  t{n}: {{ run: 'true', after: [t{n - 1}] }}" for n in range(1, 12)]
    (server.directory / "wide.yaml").write_text("workflow: wide\nowner: ann\ntasks:\n" + "\n".join(tasks) + "\n")
    run = server.baton("submit", "wide.yaml")
    yield run, release
    release.touch()


def test_a_graph_is_moved_and_zoomed_and_stays_so(page, server, wide):
    run, release = wide
    open_page(page, server, f"/runs/{run}")
    graph, svg = page.locator("#graph"), page.locator("svg.graph")
    left = lambda: graph.evaluate("graph => graph.scrollLeft")
    box = graph.bounding_box()
    # Drag, from a box, which is a link.
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 500, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 400, middle, steps=4)
    page.mouse.move(box["x"] + 200, middle, steps=4)
    page.mouse.up()
    assert left() == 300
    expect(page).to_have_url(f"{server.url}/runs/{run}")
    page.get_by_role("button", name="Zoom in").click()
    width = float(svg.get_attribute("width"))
    assert width == pytest.approx(1.25 * float(svg.get_attribute("viewBox").split()[2]))
    graph.focus()
    before = left()
    # A key scrolls smoothly.
    graph.evaluate("graph => { window.moved = new Promise((end) => { graph.onscrollend = () => end(null); }); }")
    page.keyboard.press("ArrowRight")
    page.evaluate("window.moved")
    assert left() > before
    page.keyboard.press("-")
    page.keyboard.press("-")
    page.keyboard.press("+")
    assert float(svg.get_attribute("width")) == pytest.approx(width * 0.8)
    picture(page, "graph-moved")
    # Neither place nor size changes with an update.
    graph.evaluate("graph => graph.scrollTo(450, 0)")
    place = left(), svg.get_attribute("width")
    release.touch()
    expect(page.locator("h1")).to_contain_text("DONE", timeout=60_000)
    expect(page.locator("svg.graph .s-DONE")).to_have_count(12)
    assert (left(), svg.get_attribute("width")) == place
    # Without a drag, a box is a link.
    page.locator("svg.graph a").nth(5).click()
    expect(page).to_have_url(f"{server.url}/runs/{run}/items/?task=t5")
    assert page.problems == []
