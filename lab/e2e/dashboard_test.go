package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/browser"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

// TestDashboard: Chromium loads the page from a follower, and shows who leads within a second after that is known when
// the leader is killed, with what it cost. Nothing goes wrong in the page.
func TestDashboard(t *testing.T) {
	chromium := browser.Find()
	if chromium == "" {
		t.Skip("there is no Chromium: apt-get install chromium")
	}
	t.Parallel()
	s := startCluster(t, cluster.Config{Apps: []string{"topology"}})
	leader, follower := s.leader(), s.followers()[0]
	page, err := browser.Open(s.ctx, chromium, t.TempDir())
	s.check(err)
	t.Cleanup(func() { s.check(page.Close()) })
	s.check(page.Go("http://" + follower.API + "/"))
	s.check(page.Until(fmt.Sprintf(`document.querySelector(".leader").textContent === %q`, leader.Name)))

	// The page notes when it shows another leader, and this test when the API tells one.
	s.check(page.Eval(fmt.Sprintf(`window.seen = new Promise(done => { const look = () => {
		const e = document.querySelector(".leader")
		e && e.textContent !== %q ? done(Date.now()) : setTimeout(look, 5) }; look() }), 0`, leader.Name), nil))
	s.check(leader.Kill())
	next := s.leader()
	known := time.Now()
	var shown int64
	s.check(page.Eval(`window.seen`, &shown))
	if late := time.UnixMilli(shown).Sub(known); late > time.Second {
		t.Errorf("the page shows the new leader %v after it is known", late)
	}
	s.check(page.Until(fmt.Sprintf(`document.querySelector(".leader").textContent === %q`, next.Name)))
	s.check(page.Key("6"))
	s.check(page.Until(fmt.Sprintf(`document.title.startsWith("Timeline") &&
		[...document.querySelectorAll("td")].some(e => e.textContent === %q)`, leader.Name)))
	for _, problem := range page.Problems() {
		t.Errorf("the console says %s", problem)
	}
}
