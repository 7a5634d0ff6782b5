//go:build !darwin

package wired

import (
	"context"
	"errors"
)

// Here returns this machine, which has no such limit.
func Here() System { return other{} }

type other struct{}

func (other) Read() (Reading, error) {
	return Reading{UnavailableReason: "Only macOS limits what the graphics processor may keep in " +
		"place. On this machine models use ordinary memory, all that is free"}, nil
}

func (other) Administrator(context.Context, string) error {
	return errors.New("there is no wired limit on this system")
}
