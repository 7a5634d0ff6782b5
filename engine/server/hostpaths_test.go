package server

import (
	"errors"
	"strings"
	"testing"

	"headroom/engine/guard"
	"headroom/engine/problem"
)

// TestErrorsWithoutPaths: who has a named key does not learn where files are on the host.
func TestErrorsWithoutPaths(t *testing.T) {
	for _, c := range []struct {
		models []string
		err    error
		want   string
	}{
		{nil, problem.New(problem.DoesNotFit, "It does not fit", "3 / 4 GB", "Stop a/b."),
			"It does not fit: 3 / 4 GB. Stop a/b."},
		{nil, problem.New(problem.ModelNotFound, "It cannot be loaded",
			"open /home/me/m/x.json: no such file", "Look."),
			"It cannot be loaded: the log of the server says why. Look."},
		{nil, problem.New(problem.ModelNotFound, "There is no model at ~/m", "", "See \"/x\"."),
			"The model cannot be used"},
		{nil, errors.New("a/b"), "a/b"},
		{[]string{"m"}, problem.New(problem.DoesNotFit, "It does not fit", "why", "fix"),
			"It does not fit"},
	} {
		m := someModels{nil, &guard.Caller{Models: c.models}}
		got := m.reduced(c.err)
		if got.Error() != c.want || strings.Contains(got.Error(), "/home") ||
			problem.From(got).Code != problem.From(c.err).Code {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
}
