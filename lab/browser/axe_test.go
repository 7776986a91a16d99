package browser

import (
	"os"
	"testing"
)

// axe is what checks accessibility; see package.json.
const axe = "node_modules/axe-core/axe.min.js"

// loadAxe makes axe part of the page. The policy of the page does not hold for what the DevTools evaluate.
func loadAxe(t *testing.T, page *Page) {
	t.Helper()
	source, err := os.ReadFile(axe)
	if err != nil {
		t.Skip("axe-core is missing: run npm ci in lab/browser, or scripts/install-test-deps")
	}
	check(t, page.Eval(string(source)+"; 0", nil))
}

// violations runs all rules of axe, which include those of WCAG 2.2 AA. Maps and regions without a name, which axe
// allows, are in the list, too.
const violations = `(async () => {
	const r = await axe.run(document, { resultTypes: ["violations"], preload: false, elementRef: false })
	const list = r.violations.flatMap(v => v.nodes.slice(0, 3).map(n => [v.id, n.html, n.failureSummary].join(": ")))
	for (const e of document.querySelectorAll("canvas, svg, [role=region], pre"))
		if (!e.ariaLabel && !e.getAttribute("aria-labelledby")) list.push("no name: " + e.outerHTML.slice(0, 200))
	return list })()`

func accessible(t *testing.T, page *Page, view string) {
	t.Helper()
	var problems []string
	check(t, page.Eval(violations, &problems))
	for _, problem := range problems {
		t.Errorf("%s: %s", view, problem)
	}
}

// tabs notes what gets the focus, and whether that is seen.
const tabs = `(() => {
	const all = [...document.querySelectorAll("a[href], button:not(:disabled), input, [tabindex='0']")]
		.filter(e => e.checkVisibility())
	const seen = new Set, hidden = []
	addEventListener("focusin", window.noted = ({ target: e }) => {
		if (!e.matches(":focus")) return // it has lost the focus already, to what the page has just drawn
		seen.add(e)
		const s = getComputedStyle(e), r = e.getBoundingClientRect()
		if (s.outlineStyle === "none" || parseFloat(s.outlineWidth) < 2) hidden.push("has no outline: " + e.outerHTML)
		if (r.right <= 0 || r.left >= innerWidth || r.bottom <= 0 || r.top >= innerHeight)
			hidden.push("is outside of the window: " + e.outerHTML)
		const top = document.elementFromPoint(r.x + Math.min(r.width, innerWidth) / 2, Math.max(r.y, 0) + 4)
		if (top?.closest("header") && !e.closest("header, .skip")) hidden.push("is below the header: " + e.outerHTML)
	})
	window.unreached = () => all.filter(e => e.isConnected && !seen.has(e))
	window.missed = () => { removeEventListener("focusin", window.noted)
		return [...hidden, ...window.unreached().map(e => "is not reached: " + e.outerHTML)] }
	document.activeElement.blur()
	return all.length })()`

// keyboard presses Tab until all of a view had the focus, and that is seen wherever it is.
func keyboard(t *testing.T, page *Page, view string) {
	t.Helper()
	var count int
	check(t, page.Eval(tabs, &count))
	// From where the focus was, over the end of the page. The page gives the focus to a new view, which on a busy
	// machine is while keys are pressed already, so one time around need not be enough.
	for left, rounds := count, 0; left > 0 && rounds < 3; rounds++ {
		for range count + 2 {
			check(t, page.Key("Tab"))
		}
		check(t, page.Eval(`window.unreached().length`, &left))
	}
	var problems []string
	check(t, page.Eval(`window.missed()`, &problems))
	for _, problem := range problems {
		t.Errorf("%s: %s", view, problem)
	}
	t.Logf("%s: Tab reaches %d things", view, count)
}
