package commands

import "headroom/app/worker"

// Worker is `headroom worker`, the process of a model. The server starts it.
type Worker struct{}

// Run returns when the server closes the worker or ends.
func (*Worker) Run() error {
	if code := worker.Main(); code != 0 {
		return exitCode(code)
	}
	return nil
}
