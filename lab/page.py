"""What lab/page asks of the page: page.py ADDRESS FOLDER CHROMIUM [SHOTS]."""
import json
import pathlib
import re
import sys

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

address, folder, chromium = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
shots = pathlib.Path(sys.argv[4]) if len(sys.argv) > 4 and sys.argv[4] else None
token = (folder / "token").read_text().strip()
expect.set_options(timeout=20_000)

summary = {"min_ns": 8100, "max_ns": 91000, "mean_ns": 12300.0, "count": 500}
run = {"label": "64 bytes", "attempts": 1, "disturbed": [], "figures": [["lost", 0], ["rate_pps", 1000]], "latencies": [["forward", summary]], "findings": []}
report = {
    "schema": "millrace-gauge/1", "good": True, "broken_thresholds": [], "machine": {"cpu": "a processor", "cpus": 4, "kernel": "6.1"},
    "switch": {"peer": "127.0.0.1", "openflow": "1.3", "manufacturer": "millrace", "hardware": "software", "software": "0.2.0"},
    "modules": [{"module": "forwarding", "runs": [run]}, {"module": "meters", "skipped": "the switch has no meters", "runs": []}],
}
(folder / "reports" / "first.json").write_text(json.dumps(report))
(folder / "reports" / "broken.json").write_text("{}")


def topology(page):
    expect(page.locator("#view-topology")).to_contain_text("to1")
    row = page.locator("#view-topology tbody tr", has_text="p1")
    # Real pings: some 150 a second come in by p1.
    expect(row.locator("td.n").nth(1)).to_have_text(re.compile(r"[1-9]\d* pkt/s"))
    label = page.locator("#view-topology svg").get_attribute("aria-label")
    assert "Patch links: to0 to to1" in label, label


def tables(page):
    nodes = page.locator(".nodes > li")
    expect(nodes).to_have_count(5)
    expect(nodes.nth(0)).to_contain_text("3 entries")
    nodes.nth(1).locator("summary").click()
    expect(nodes.nth(1)).to_contain_text("Goes on to t2 (goto_table, 2 entries)")
    expect(nodes.nth(1)).to_contain_text("chosen:")
    expect(nodes.nth(0)).to_contain_text("Goes on to t1 (ct, 1 entries)")
    expect(nodes.nth(0).locator(".n").nth(1)).to_have_text(re.compile(r"\d+\.\d % hit"))
    expect(page.locator("#view-tables table")).to_contain_text("nw_dst=10.0.0.2")


def trace(page):
    page.locator("#trace-packet").fill("icmp,nw_src=10.0.0.1,nw_dst=10.0.0.2,dl_dst=02:00:00:00:00:02")
    page.get_by_role("button", name="Trace", exact=True).click()
    expect(page.locator("#view-trace .tree")).to_contain_text("t0:")
    expect(page.locator("#view-trace .tree ul")).not_to_have_count(0)
    expect(page.locator("#view-trace .verdict")).to_be_visible()


def drops(page):
    expect(page.locator("#view-drops tbody").first).to_contain_text("table_miss")
    expect(page.locator("#view-drops svg rect")).not_to_have_count(0)
    assert "table_miss" in page.locator("#view-drops svg").get_attribute("aria-label")


def connections(page):
    expect(page.locator("#view-connections table").nth(2)).to_contain_text("icmp")
    page.locator("#filter").fill("nothing-has-this")
    expect(page.locator("#view-connections")).to_contain_text("none fits the filter")
    page.locator("#filter").fill("icmp 10.0.0.2")
    expect(page.locator("#view-connections table").nth(2)).to_contain_text("10.0.0.1")


def group(page):
    view = page.locator("#view-group")
    expect(view).to_contain_text("gw, a")
    expect(view).to_contain_text("active")
    expect(view.locator("tbody tr", has_text="b").first).to_be_visible()
    if (folder / "two").exists():
        expect(view).to_contain_text(re.compile("Connections *protected"))
        expect(view.locator("tbody tr").first).to_contain_text(re.compile(r"b *yes *standby *has all *the same"))
    else:
        expect(view).to_contain_text("UNPROTECTED")


def gauge(page):
    page.locator("#report-name").select_option("broken.json")
    expect(page.locator("#view-gauge")).to_contain_text("is no report of gauge")
    page.locator("#report-file").set_input_files(folder / "reports" / "first.json")
    expect(page.locator("#view-gauge")).to_contain_text("12.3 µs")
    page.locator("#report-name").select_option("first.json")
    expect(page.locator("#view-gauge")).to_contain_text("the switch has no meters")


VIEWS = [topology, tables, trace, drops, connections, group, gauge]
wrong, pictures, axe = [], 0, Axe()


def watched(context):
    page = context.new_page()
    page.on("console", lambda message: wrong.append(f"console: {message.text}") if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("request", lambda request: None if request.url.startswith(address) else wrong.append(f"asks {request.url}"))
    return page


def looked_at(page, name):
    """It fits the window, and axe finds nothing; a picture, if they are wanted."""
    over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    if over > 0:
        wrong.append(f"{name}: {over} pixels too wide")
    # axe comes by the debugger, past the policy, which would not let it in.
    for found in axe.run(page).response["violations"]:
        nodes = "; ".join(node["html"][:120] + " " + node["failureSummary"].replace("\n", " ")[:160] for node in found["nodes"][:3])
        wrong.append(f"{name}: axe {found['id']}: {nodes}")
    if shots:
        shots.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=shots / f"{name.replace(' ', '-')}.png", full_page=True)


def keyboard(page):
    """Tabs go by arrow keys, and the first stop leads past them."""
    page.goto(address)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.locator("#tab-topology").focus()
    for key, name in [("ArrowRight", "tables"), ("End", "gauge"), ("ArrowRight", "topology"), ("ArrowLeft", "gauge"), ("Home", "topology")]:
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.id") == f"tab-{name}", key
        expect(page.locator(f"#view-{name}")).to_be_visible()
    expect(page.locator("#theme")).to_have_text("Dark")
    page.locator("#theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def changes(page, name):
    """With the token an entry comes and goes; with a wrong one the page says so."""
    page.goto(address + "#tables")
    expect(page.locator("#flow-line")).to_be_hidden()
    expect(page.locator("#port-name")).to_be_hidden()
    for said in ("0123456789abcdefWRONG", token):
        if page.locator("#token-form").is_hidden():
            page.locator("#token-open").click()
        page.locator("#token").fill(said)
        page.get_by_role("button", name="Use").click()
        if said != token:
            expect(page.locator("#banner")).to_contain_text("does not know this token")
    expect(page.locator("#banner")).to_be_empty()
    # A port is put down, so that pings stop, and up again.
    page.locator("#tab-topology").click()
    row = page.locator("#view-topology tbody tr", has_text="p2")
    page.locator("#port-name").select_option(label="p2 of br0")
    for way in ("down", "up"):
        page.locator(f"#port-{way}").click()
        expect(page.locator("#view-topology")).to_contain_text(f"Done: p2 of br0 is put {way}.")
        expect(row.locator("td").nth(2)).to_have_text(way)
    looked_at(page, f"ports {name}")
    page.locator("#tab-tables").click()
    page.locator("#flow-line").fill("table=0,priority=77,udp,tp_dst=77,actions=drop")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("#view-tables")).to_contain_text("Done: 8 entries now.")
    page.locator("#flow-line").fill("delete udp,tp_dst=77")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("#view-tables")).to_contain_text("Done: 7 entries now.")
    page.locator("#flow-line").fill("nonsense")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("#view-tables")).to_contain_text("column 1")


def lost(context):
    """A connection that is lost is told, and comes back."""
    page = context.new_page()
    page.route("**/api/**", lambda route: route.abort())
    page.goto(address)
    expect(page.locator("#banner")).to_contain_text("Connection lost")
    page.unroute("**/api/**")
    expect(page.locator("#banner")).to_be_empty()
    expect(page.locator("#live-text")).to_contain_text("live")


with sync_playwright() as play:
    browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
    for width in (1280, 400):
        for theme in ("light", "dark"):
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
            page = watched(context)
            for view in VIEWS:
                name = view.__name__
                page.goto(address + "#" + name)
                page.reload()
                expect(page.locator("#live-text")).to_contain_text("live, 2 bridges")
                try:
                    view(page)
                except AssertionError as error:
                    # Behind the lines that say what was wanted stands the whole view.
                    wrong.append(f"{name} {width} {theme}: " + " | ".join(str(error).splitlines()[:4]))
                looked_at(page, f"{name} {width} {theme}")
                pictures += 1
            context.close()
    context = browser.new_context(color_scheme="light")
    keyboard(watched(context))
    context.close()
    for width, theme in ((1280, "light"), (400, "dark"), (400, "light")):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
        # The console tells of the refusals that are wanted here.
        changes(context.new_page(), f"{width} {theme}")
        context.close()
    lost(browser.new_context())
    browser.close()
for line in dict.fromkeys(wrong):
    print(line)
if wrong:
    sys.exit(1)
print(f"{pictures} views without a violation of axe, an error or a request to elsewhere")
