package textproc

import (
	"errors"
	"io/fs"

	"headroom/engine/checkpoint"
	"headroom/engine/problem"
	"headroom/engine/tokenizer"
)

// readTokenizerConfig reads a model's tokenizer_config.json and the files beside it. Errors are
// Problems. A missing file is none.
func readTokenizerConfig(src checkpoint.Source) (*tokenizer.Config, error) {
	var files tokenizer.ConfigFiles
	for _, f := range []struct {
		name string
		data *[]byte
	}{
		{"tokenizer_config.json", &files.TokenizerConfig},
		{"special_tokens_map.json", &files.SpecialTokensMap},
		{"added_tokens.json", &files.AddedTokens},
	} {
		var err error
		if *f.data, err = src.ReadFile(f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, unusable(f.name, err)
		}
	}
	c, err := tokenizer.ParseConfig(files)
	if err != nil {
		return nil, unusable("tokenizer_config.json", err)
	}
	return c, nil
}

// unusable returns the Problem of a file that cannot be read or parsed.
func unusable(file string, err error) error {
	return problem.Wrap(problem.ModelBroken, err, "The model's "+file+" cannot be used",
		"Download or convert the model again.")
}
