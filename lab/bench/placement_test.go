package bench

import "testing"

// The optimizer brings each actor to its switch, so that only what is central crosses controllers: Beehive, figure 10.
func TestPlacement(t *testing.T) {
	r, err := Placement{Controllers: 5, Switches: 20, Flows: 100, Windows: 20}.Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	f := r.Figures
	if f["crossing_percent_before"] < 70 || f["crossing_percent_while"] >= f["crossing_percent_before"] ||
		f["above_ideal_percent"] > 5 || f["misplaced"] != 0 || f["moves"] < 16 {
		t.Errorf("%v", f)
	}
}
