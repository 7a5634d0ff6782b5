package commands

import "headroom/app/worker"

// Worker is `headroom worker`, which the server starts by itself.
type Worker struct{}

// Run returns when the server wants the end, or is gone.
func (*Worker) Run() error {
	if code := worker.Main(); code != 0 {
		return exitCode(code)
	}
	return nil
}
