//go:build !darwin

package wired

import (
	"context"
	"errors"
)

// Here returns this machine, which has no wired limit.
func Here() System { return other{} }

type other struct{}

func (other) Read() (Reading, error) {
	return Reading{UnavailableReason: "Only macOS limits how much memory the GPU may wire. On " +
		"this machine, models can use all free memory"}, nil
}

func (other) Administrator(context.Context, string) error {
	return errors.New("there is no wired limit on this system")
}
