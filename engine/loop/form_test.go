package loop

import (
	"errors"
	"fmt"
	"testing"

	"headroom/engine/grammar"
	"headroom/engine/grammar/regular"
	"headroom/engine/problem"
)

// TestFormError: a form that is too complex is the client's fault, everything else is ours.
func TestFormError(t *testing.T) {
	for _, c := range []struct {
		err  error
		want problem.Code
	}{
		{fmt.Errorf("token 5: %w", regular.ErrTooComplex), problem.BadRequest},
		{grammar.ErrNoToken, problem.Internal},
	} {
		var p *problem.Problem
		if err := formError(c.err); !errors.As(err, &p) || p.Code != c.want {
			t.Errorf("%v: got %v, expected the code %s", c.err, err, c.want)
		}
	}
}
