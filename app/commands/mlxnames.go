package commands

// What mlx-lm's programs are called here, for people who type their names.

import (
	"errors"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// mlxPrograms are the commands for mlx-lm's programs, and for other words that people type. The
// others have their own names here.
var mlxPrograms = map[string]string{
	"generate":      `headroom run MODEL "PROMPT"`,
	"server":        "headroom serve MODEL",
	"lora":          "headroom train MODEL --data DIR",
	"cache_prompt":  "headroom cache save --model MODEL --prompt - FILE < TEXT",
	"manage":        "headroom models, and headroom models delete NAME",
	"benchmark":     "headroom bench speed MODEL",
	"gptq":          "headroom convert MODEL DIR --calibrate TEXT",
	"dynamic_quant": "headroom convert MODEL DIR --calibrate TEXT --target-bpw N",
	"chat":          "headroom chat MODEL",
	"convert":       "headroom convert MODEL DIR",
	"fuse":          "headroom fuse MODEL ADAPTER DIR",
	"upload":        "headroom upload DIR ORG/NAME",

	// Of other programs, and of pages of the window.
	"rm":       "headroom models delete NAME",
	"remove":   "headroom models delete NAME",
	"delete":   "headroom models delete NAME",
	"list":     "headroom models",
	"ls":       "headroom models",
	"pull":     "headroom models download ORG/NAME",
	"download": "headroom models download ORG/NAME",
	"finetune": "headroom train MODEL --data DIR",
	"adapt":    "headroom train MODEL --data DIR",
	"quantize": "headroom convert MODEL DIR --bits N",
}

// modelsCommands are other names of the commands of `headroom models`.
var modelsCommands = map[string]string{
	"rm":     "headroom models delete NAME",
	"remove": "headroom models delete NAME",
	"ls":     "headroom models",
	"pull":   "headroom models download ORG/NAME",
}

// notHere are programs of mlx-lm that Headroom does not have, and what does the same.
var notHere = map[string]string{
	"evaluate":   evalHarness,
	"perplexity": evalHarness,
	"awq":        gptqHere,
	"dwq":        gptqHere,
	"share":      "copy the model's folder, and load it with headroom models import DIR",
}

const evalHarness = "start headroom serve MODEL, and run lm_eval with its model local-completions"

const gptqHere = "headroom convert MODEL DIR --calibrate TEXT packs by GPTQ"

// mlxProgram returns the name of mlx-lm's program that the words of a command line begin with, and
// how they write it: "generate", "mlx_lm.generate", "python -m mlx_lm generate".
func mlxProgram(args []string) (name, written string) {
	at := 0
	word := func() string {
		if at < len(args) {
			return args[at]
		}
		return ""
	}
	if base := word(); strings.HasPrefix(base, "python") {
		at++
	}
	if word() == "-m" && strings.HasPrefix(args[min(at+1, len(args)-1)], "mlx_lm") {
		at++
	}
	name = word()
	if name == "mlx_lm" {
		at++
		name = word()
	}
	if strings.HasPrefix(name, "mlx_lm.") {
		name = name[strings.LastIndexByte(name, '.')+1:]
	}
	if at >= len(args) {
		return "", ""
	}
	return name, strings.Join(args[:at+1], " ")
}

// otherProgram returns a sentence about a command line that begins with the name of a program of
// mlx-lm, or with a model's flag in place of a command; "": it does neither.
func otherProgram(err error) string {
	var wrong *kong.ParseError
	if !errors.As(err, &wrong) || wrong.Context == nil {
		return ""
	}
	args := wrong.Context.Args
	if len(args) > 1 && args[0] == "models" && modelsCommands[args[1]] != "" {
		return fmt.Sprintf("there is no command models %s. In Headroom it is: %s", args[1],
			modelsCommands[args[1]])
	}
	if nearest(err) != "headroom" {
		return ""
	}
	name, written := mlxProgram(args)
	if here := mlxPrograms[name]; here != "" {
		return fmt.Sprintf("there is no command %s. In Headroom it is: %s", written, here)
	}
	if other := notHere[name]; other != "" {
		return fmt.Sprintf("there is no command %s. In its place, %s", written, other)
	}
	if len(args) > 0 {
		flag, _, _ := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
		if strings.HasPrefix(args[0], "-") && strings.HasPrefix(ownFlags[flag], "--model ") ||
			args[0] == "--model" {
			return fmt.Sprintf("%s needs a command before it: headroom chat MODEL, "+
				"headroom run MODEL \"PROMPT\" or headroom serve MODEL", args[0])
		}
	}
	return ""
}
