"""Goes through the pages of `vioperf view` in headless Chromium as a reader does, and says, as JSON, what was met: argv is
the address, the browser, and where screenshots go (or nothing)."""

import sys

from browser import faults, opened, tell

address, browser_program, *pictures = sys.argv[1:]


def walk(page, met):
    """From page to page by what is on them; gives what stands there."""
    page.goto(address)
    met("runs")
    walked = {"all": ids(page)}
    page.select_option("select[name=kernel]", label="6.12.0")
    page.click("button:has-text('Show')")
    met("filtered")
    walked["filtered"] = ids(page)
    walked["filter_in_address"] = "kernel=6.12.0" in page.url
    page.click("text=show all")
    walked["gone"] = page.locator(".gone").count()
    page.check("input[name=a][value='%s']" % walked["all"][-1])
    page.check("input[name=b][value='%s']" % walked["all"][1])  # the newest is gone
    page.click("button:has-text('Compare')")
    met("two runs")
    for folded in page.locator("summary:has-text('The same as a table')").all():
        folded.click()
    tables = page.locator("table.compared")
    walked["compared"] = {
        table.get_attribute("data-metric"): [
            [text(cell) for cell in row.locator("th, td").all()] for row in table.locator("tbody tr").all()
        ]
        for table in tables.all()
    }
    walked["lead"] = page.inner_text("header .lead")
    page.click("text=Over time")
    met("over time")
    page.click("th a:has-text('virtio')")
    met("a cell")
    walked["trend"] = [
        [text(cell) for cell in row.locator("th, td").all()] for row in page.locator("table >> tbody tr").all()
    ]
    walked["changes"] = page.locator(".changes li").all_inner_texts()
    # A ring leads to its run, and that has a way back.
    page.locator(".trend a").first.click()
    met("a run")
    walked["run"] = page.url
    page.click("text=All runs")
    walked["back"] = ids(page)
    return walked


def text(cell):
    value = cell.get_attribute("data-value")
    return cell.inner_text().strip() if value is None else float(value)


def ids(page):
    return page.locator("table.runs tbody code").all_inner_texts()


def look(browser, name, options):
    page, console, requests = opened(browser, options)
    seen = {"console": console, "requests": requests, "faults": [], "too_wide": []}
    has_scripts = options.get("java_script_enabled", True)

    def met(what):
        page.wait_for_load_state("load")
        if pictures:
            page.screenshot(path=f"{pictures[0]}/{what.replace(' ', '-')}-{name}.png", full_page=what != "a run")
        if not has_scripts:
            return
        if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
            seen["too_wide"].append(what)
        # The report's own page is looked at by page.py.
        if what == "a run" or name == "phone" and what not in ("runs", "two runs"):
            return
        seen["faults"] += [{"page": what, **fault} for fault in faults(page, name)]

    seen["walked"] = walk(page, met)
    if name == "light":
        head = page.locator("th .sort:has-text('began')")
        head.focus()
        for _ in range(2):
            page.keyboard.press("Enter")
        seen["oldest_first"] = ids(page)
    page.context.close()
    return seen


tell(browser_program, look)
