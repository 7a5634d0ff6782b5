//go:build !linux && !darwin

package power

import "errors"

// take fails: this system has no supported sleep assertion.
func take() (release func() error, err error) {
	return nil, errors.New("idle sleep cannot be prevented on this system")
}
