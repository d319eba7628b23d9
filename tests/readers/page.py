"""Opens a page from disk in headless Chromium as different readers do, and says, as JSON, what they meet: argv is
the page, the browser, and where screenshots go (or nothing)."""

import sys
from pathlib import Path

from browser import faults, opened, tell

page_file, browser_program, *pictures = sys.argv[1:]


def explored(page):
    """What is said of the drawing, and the numbers of its table by cell: mean, and the ends of the interval."""
    return {
        "said": page.inner_text("#explore [aria-live]"),
        "dots": page.locator("#explore .drawing a").count(),
        "numbers": page.evaluate(
            "Object.fromEntries([...document.querySelectorAll('#explore tbody tr')].map(row => "
            "[row.cells[0].textContent, [1, 2, 3].map(at => Number(row.cells[at].dataset.value ?? NaN)).map(value => isNaN(value) ? null : value)]))"
        ),
    }


def told_values(page):
    """What pictures tell of their values: by keyboard, the last and the first of each, and under the pointer."""
    page.evaluate("document.querySelectorAll('details.more').forEach(details => { details.open = true })")
    told, pictures = [], page.locator("[data-values]:visible")
    for number in range(pictures.count()):
        pictures.nth(number).focus()
        for key in ["End", "Home"]:
            page.keyboard.press(key)
            told.append({"bubble": page.inner_text(".bubble"), "spoken": page.text_content(".spoken")})
    page.keyboard.press("Escape")
    hidden = not page.locator(".bubble").is_visible()
    spot = page.locator(".stacked .spot >> nth=0")
    spot.hover()
    return {"by_key": told, "hidden": hidden, "under_pointer": page.inner_text(".bubble")}


def use_controls(page):
    """Uses what a script has put there, by keyboard where a keyboard can."""
    used = {"first": explored(page)}
    page.select_option("#explore select >> nth=0", "percent_of_baseline")
    used["percent"] = explored(page)
    page.locator("#explore form summary").focus()
    page.keyboard.press("Enter")
    boxes = page.locator("#explore fieldset >> nth=-1").locator("input")
    boxes.nth(1).focus()
    page.keyboard.press("Space")
    used["hidden_level"] = explored(page)
    page.keyboard.press("Space")
    page.select_option("#explore select >> nth=2", "value")
    used["by_value"] = explored(page)
    # Another table of the page, sorted by its second column and then the other way round.
    head = page.locator("main table:has(thead tr:only-child) th .sort:visible >> nth=1")
    column = "head => [...head.closest('table').tBodies[0].rows].map(row => row.cells[1].textContent.trim())"
    head.focus()
    page.keyboard.press("Enter")
    used["sorted"] = {"as": head.evaluate("head => head.closest('th').ariaSort"), "column": head.evaluate(column)}
    page.keyboard.press("Enter")
    used["turned"] = {"as": head.evaluate("head => head.closest('th').ariaSort"), "column": head.evaluate(column)}
    toggle = page.locator(".toggle").first
    if toggle.count():
        lines = "[...document.querySelectorAll('.latency .line')].filter(line => line.style.display === 'none').length"
        toggle.click()
        used["lines_hidden"] = page.evaluate(lines)
        toggle.click()
        used["lines_hidden_again"] = page.evaluate(lines)
    used["values"] = told_values(page)
    # An address of something that is folded away unfolds it.
    used["unfolded"] = page.evaluate(
        "async () => { const folded = document.querySelector('details:not([open]) > :nth-child(2)'); folded.id = 'folded away';"
        "location.hash = '#folded%20away'; await new Promise(done => setTimeout(done, 50)); return folded.parentElement.open; }"
    )
    return used


def look(browser, name, options):
    """What one reader meets."""
    page, console, requests = opened(browser, options)
    page.goto(Path(page_file).as_uri())
    page.wait_for_load_state("load")
    seen = {
        "console": console,
        "requests": requests,
        # Wider than the window: it would have to be moved sideways as a whole.
        "too_wide_by": page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"),
        "first_paint_ms": page.evaluate(
            "performance.getEntriesByName('first-contentful-paint').map(paint => paint.startTime)[0] ?? null"
        ),
        "text": page.inner_text("body"),
        "links_to_nowhere": page.evaluate(
            "[...document.querySelectorAll('a[href^=\"#\"]')].map(link => link.hash.slice(1))"
            ".filter(id => !document.getElementById(decodeURIComponent(id)))"
        ),
    }
    if options.get("java_script_enabled", True):
        # The contrast of what is closed is looked at, too.
        page.evaluate("document.querySelectorAll('details').forEach(details => { details.open = true })")
        seen["faults"] = faults(page, name)
        page.evaluate("document.querySelectorAll('details').forEach(details => { details.open = false })")
    if name == "light" and page.locator("#explore").count():
        seen["controls"] = use_controls(page)
    if pictures:
        page.screenshot(path=f"{pictures[0]}/{name}.png")
    page.context.close()
    return seen


tell(browser_program, look)
