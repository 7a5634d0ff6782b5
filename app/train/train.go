// Package train fine-tunes a model with mlx-lm, for `headroom train` and for the window, which
// trains by the same code as a job. Headroom's engine does not train: mlx_lm.lora runs in a process
// of its own, in a Python environment that only Headroom uses.
//
//	options.go      flags and configuration file, under mlx_lm.lora's names
//	data.go         reads and checks train.jsonl, valid.jsonl and test.jsonl
//	split.go        uses a single file as training and validation data
//	memory.go       estimates the memory that a training needs
//	bundled.go      writes the bundled model's files into a folder
//	environment.go  makes the Python environment from pinned, hashed requirements
//	adapter.go      folder of an adapter: its checkpoints, and the record of its training
//	run.go          runs the process, reads its events, pauses it
//	plan.go         makes all checks before a start, and starts
//	trainer.go      trains as a job that is paused and resumed, and reports its progress
//	words.go        says problems in the words of the window
//	launch.py       starts mlx_lm.lora and prints the events
//
// requirements.txt is made from requirements.in:
//
//	uv pip compile --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
//	    requirements.in -o requirements.txt
//
// Source: mlx_lm 0.32.2, lora.py, tuner/trainer.py, tuner/datasets.py and tuner/utils.py.
package train

import (
	"fmt"

	"headroom/engine/problem"
)

// notStarted returns the Problem of a training that was refused.
func notStarted(code problem.Code, fix, why string, values ...any) error {
	return problem.New(code, "The training was not started", fmt.Sprintf(why, values...), fix)
}
