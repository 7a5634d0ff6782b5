package route

import "testing"

// TestSimulate: the router reaches nearly what one machine with an endless cache would, and keeps
// the machines about as busy as each other.
func TestSimulate(t *testing.T) {
	results := Simulate(Simulation{Machines: 10, Sessions: 400})
	for _, r := range results {
		t.Log(r)
	}
	router, inTurn := results[0], results[1]
	if router.Requests != 4000 || router.OfPossible < 0.95 {
		t.Errorf("the router: %v", router)
	}
	if router.HitRate < inTurn.HitRate+0.2 || router.First95 > inTurn.First95 {
		t.Errorf("the router is not better than the machines in turn: %v; %v", router, inTurn)
	}
	if router.Balance > 2 {
		t.Errorf("one machine computes %.1f times the mean", router.Balance)
	}
}
