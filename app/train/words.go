package train

// The Problems of this package name flags of `headroom train`. The window has settings with names
// of its own.

import (
	"errors"
	"strings"

	"headroom/engine/problem"
)

// windowWords replaces flags by the names of the window's settings
// (frontend/src/strings/adapt.ts). Longer texts come first.
var windowWords = strings.NewReplacer(
	"Name a folder with a train.jsonl by --data.", "Choose a folder with a train.jsonl, or a file.",
	"Leave --mask-prompt out.", "Turn off “Train only the answers”.",
	"--mask-prompt is not possible", "“Train only the answers” is not possible",
	"or use --batch-size", "or use a batch size of",
	"Use --fine-tune-type lora or dora,", "Choose LoRA or DoRA,",
	"--fine-tune-type full", "Full fine-tuning",
	"--fine-tune-type", "the method",
	"Use --grad-checkpoint,", "Turn on “Compute activations again”,",
	"--grad-checkpoint", "“Compute activations again”",
	"a larger --max-seq-length", "a larger maximum length",
	"--max-seq-length", "maximum length",
	"a smaller --batch-size", "a smaller batch size",
	"--batch-size", "batch size",
	"or --num-layers", "or fewer layers",
	"--num-layers is", "the number of layers is",
	"--num-layers", "number of layers",
	"--learning-rate is", "the learning rate is",
	"a smaller --learning-rate", "a smaller learning rate",
	"--iters is", "the number of iterations is",
	"a larger --iters", "more iterations",
	"--resume goes on after iteration", "Resume goes on after iteration",
	"Choose another --adapter-path, or write over it by --force.", "Choose another name.",
	"Go on by --resume, begin anew by --force, or choose another --adapter-path.",
	"Resume it, or choose another name.",
	"Choose another --adapter-path, or begin anew by --force.", "Choose another name.",
	"Use the same, or begin anew by --force.", "Choose another name.",
	"Wait until it has ended, or pause it by Ctrl-C.", "Wait until it has ended, or pause it.",
	"Look at the last line above. Nothing was left; run the command again to try again.",
	"Nothing was left. Start again to try again.",
)

// inWindow returns an error of this package in the words of the window.
func inWindow(err error) error {
	var p *problem.Problem
	if !errors.As(err, &p) {
		return err
	}
	said := *p
	said.Why, said.Fix = windowWords.Replace(p.Why), windowWords.Replace(p.Fix)
	return &said
}
