package commands

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestMLXNames: the names and flags of mlx-lm's programs get an answer with the command.
func TestMLXNames(t *testing.T) {
	isolate(t)
	for line, want := range map[string]string{
		"generate --model x --prompt hi": `there is no command generate. In Headroom it is: ` +
			`headroom run MODEL "PROMPT"`,
		"mlx_lm.generate --model x": "no command mlx_lm.generate. In Headroom it is: " +
			"headroom run",
		"python -m mlx_lm generate -h":   "no command python -m mlx_lm generate. In Headroom it is",
		"python3 -m mlx_lm.lora --train": "In Headroom it is: headroom train MODEL --data DIR",
		"-m mlx_lm.server":               "In Headroom it is: headroom serve MODEL",
		"mlx_lm chat":                    "In Headroom it is: headroom chat MODEL",
		"mlx_lm.convert --hf-path x":     "In Headroom it is: headroom convert MODEL DIR",
		"mlx_lm.quant.awq --model x": "In its place, headroom convert MODEL DIR " +
			"--calibrate TEXT packs by GPTQ",
		"cache_prompt --prompt -": "headroom cache save --model MODEL --prompt - FILE",
		"manage --scan":           "headroom models, and headroom models delete NAME",
		"evaluate --tasks mmlu":   "lm_eval with its model local-completions",
		"perplexity x":            "start headroom serve MODEL",
		"-m some/model hi":        "-m needs a command before it: headroom chat MODEL",
		"-hf some/model":          "-hf needs a command before it",
		"--model some/model":      "--model needs a command before it",
		"run -hf some/model hi":   "unknown flag -hf: in Headroom it is --model MODEL",
		"run --ignore-eos hi":     "only requests to the endpoint have it, as ignore_eos",
		"train x --data y --lora-layers 4": "unknown flag --lora-layers: in Headroom it is " +
			"--num-layers N",
		"serve a --model b": "--model names b, and the argument a: name one of them",
		"wash --model x":    "unexpected argument wash",
		"python":            "unexpected argument python",
		"rm x":              "no command rm. In Headroom it is: headroom models delete NAME",
		"delete x":          "In Headroom it is: headroom models delete NAME",
		"list":              "no command list. In Headroom it is: headroom models",
		"ls":                "no command ls. In Headroom it is: headroom models",
		"pull x":            "In Headroom it is: headroom models download ORG/NAME",
		"finetune x":        "In Headroom it is: headroom train MODEL --data DIR",
		"adapt":             "In Headroom it is: headroom train MODEL --data DIR",
		"quantize x":        "In Headroom it is: headroom convert MODEL DIR --bits N",
		"models rm x":       "no command models rm. In Headroom it is: headroom models delete NAME",
		"models remove x":   "In Headroom it is: headroom models delete NAME",
	} {
		code, _, errOut := headroom("", strings.Fields(line)...)
		if code != int(exitUsage) || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit %d, %s", line, code, errOut)
		}
	}
}

// TestNamesOfCommands: every command that a sentence names can be parsed.
func TestNamesOfCommands(t *testing.T) {
	for name, line := range mlxPrograms {
		for _, command := range strings.Split(line, ", and ") {
			command, _, _ = strings.Cut(command, " <")
			var cli CLI
			parser, err := kong.New(&cli, kong.Name("headroom"), variables())
			if err != nil {
				t.Fatal(err)
			}
			words := strings.Fields(strings.ReplaceAll(command, " N", " 4"))[1:]
			if _, err := parser.Parse(joinValues(parser, words)); err != nil {
				t.Errorf("%s: %s: %v", name, command, err)
			}
		}
	}
}

// TestVerboseTrue: the value of --verbose may be a word of its own, as mlx_lm.generate takes it.
func TestVerboseTrue(t *testing.T) {
	isolate(t)
	for value, want := range map[string]bool{"True": true, "False": false} {
		code, out, errOut := headroom("", "run", "--verbose", value, "--max-tokens", "2", question)
		if code != 0 || strings.Contains(out+errOut, "Generation: ") != want {
			t.Errorf("%s: exit %d, %s%s", value, code, out, errOut)
		}
	}
}

// TestServeArgument: the argument of serve is the model that it loads.
func TestServeArgument(t *testing.T) {
	isolate(t)
	code, _, errOut := headroom("", "serve", "--port", "0", "no-such-model")
	if code != 1 || !strings.Contains(errOut, `no model "no-such-model"`) {
		t.Errorf("exit %d, %s", code, errOut)
	}
}
