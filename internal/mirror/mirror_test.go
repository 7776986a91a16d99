package mirror

import (
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-sdn/holdfast/api"
)

type end struct {
	Switch string `json:"switch"`
	Port   uint16 `json:"port"`
}

type watchedLink struct {
	Ends   [2]end    `json:"ends"`
	Up     bool      `json:"up"`
	Since  time.Time `json:"since"`
	RTTMs  *float64  `json:"rtt_ms"`
	Alarms int       `json:"false_alarms"`
	Failed *failure  `json:"last_failure"`
}

type failure struct {
	At *time.Time `json:"at"`
}

type inner struct {
	MAC string `json:"mac"`
}

type host struct {
	inner
	Addresses []netip.Addr `json:"addresses"`
	At        end          `json:"at"`
	private   int
}

// What is copied to a message and back is the same.
func TestCopy(t *testing.T) {
	at, rtt := time.Unix(1_700_000_000, 5).UTC(), 0.5
	link := watchedLink{Ends: [2]end{{"a1", 3}, {"a2", 4}}, Up: true, Since: at, RTTMs: &rtt, Alarms: 7,
		Failed: &failure{&at}}
	var m api.WatchedLink
	Copy(&m, link)
	if m.Ends[1].Switch != "a2" || m.GetRttMs() != rtt || !m.LastFailure.At.AsTime().Equal(at) || m.FalseAlarms != 7 {
		t.Errorf("the message is %v", &m)
	}
	var back watchedLink
	if Copy(&back, &m); cmp.Diff(link, back) != "" {
		t.Error(cmp.Diff(link, back))
	}

	h := host{inner{"02:00:00:00:00:01"}, []netip.Addr{netip.MustParseAddr("10.0.0.1")}, end{"a1", 1}, 1}
	var n api.Host
	Copy(&n, &h)
	want := &api.Host{Addresses: []string{"10.0.0.1"}, At: &api.End{Switch: "a1", Port: 1}, Mac: h.MAC}
	if d := cmp.Diff(want, &n, protocmp.Transform()); d != "" {
		t.Error(d)
	}
	var again host
	Copy(&again, &n)
	if h.private = 0; cmp.Diff(h, again, cmp.AllowUnexported(host{}, inner{}), cmp.Comparer(sameAddr)) != "" {
		t.Errorf("%+v, want %+v", again, h)
	}

	var none host
	if Copy(&none, &api.Host{}); none.Addresses == nil {
		t.Error("an empty list is null in JSON")
	}
	var empty api.WatchedLink
	Copy(&empty, watchedLink{Ends: [2]end{}})
	if empty.Since != nil || empty.RttMs != nil || empty.LastFailure != nil || empty.Ends[0] == nil {
		t.Errorf("of an empty structure the message is %v", &empty)
	}
}

func sameAddr(a, b netip.Addr) bool { return a == b }

// Numbers that are too large become the largest that is possible.
func TestLargeNumbers(t *testing.T) {
	var m api.GroupStatus
	Copy(&m, struct {
		Group    uint64 `json:"group"`
		Switches int    `json:"switches"`
	}{math.MaxUint64, math.MinInt64})
	if m.Group != math.MaxUint32 || m.Switches != math.MinInt32 {
		t.Errorf("got %d and %d", m.Group, m.Switches)
	}
}

func TestCheck(t *testing.T) {
	type more struct {
		watchedLink
		Other struct{} `json:"other"`
	}
	if got := Check(&api.WatchedLink{}, more{}); !cmp.Equal(got, []string{"other"}) {
		t.Errorf("missing: %v", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("text cannot become a number, and Check does not say so")
		}
	}()
	Check(&api.Host{}, struct {
		MAC int `json:"mac"`
	}{})
}

// One byte that is not text is in the way of nobody.
func TestCopyOfNoText(t *testing.T) {
	var to api.Host
	Copy(&to, host{inner: inner{MAC: "a\xffb"}})
	if to.Mac != "a\uFFFDb" {
		t.Errorf("it became %q", to.Mac)
	}
}
