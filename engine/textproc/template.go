package textproc

// The files and keys in which a model may have chat templates.

import (
	"encoding/json"
	"errors"
	"io/fs"

	"headroom/engine/chat"
	"headroom/engine/checkpoint"
	"headroom/engine/modelfile"
	"headroom/engine/problem"
	"headroom/engine/tokenizer"
)

// ReadTemplate reads a model's chat template with its special tokens. Requests with tools get the
// template tool_use, if the model has one. If there is no template, the error is
// chat.ErrNoTemplate. Any other error is a Problem.
func ReadTemplate(src checkpoint.Source) (*chat.Template, error) {
	config, err := readTokenizerConfig(src)
	if err != nil {
		return nil, err
	}
	return readTemplate(src, config)
}

func readTemplate(src checkpoint.Source, config *tokenizer.Config) (*chat.Template, error) {
	sources, err := templateSources(src, config.ChatTemplate)
	if err != nil {
		return nil, err
	}
	t, err := sources[defaultTemplate].parse()
	if err != nil {
		return nil, err
	}
	if source := sources[toolUseTemplate]; source.text != "" {
		toolUse, err := source.parse()
		if err != nil {
			return nil, err
		}
		t = t.WithToolUse(toolUse)
	}
	return t.WithSpecialTokens(config.Special), nil
}

// templateSource is a chat template and the file that it is in.
type templateSource struct{ file, text string }

// parse returns the template. Its errors are those of ReadTemplate.
func (s templateSource) parse() (*chat.Template, error) {
	t, err := chat.ParseTemplate(s.text)
	if err != nil && !errors.Is(err, chat.ErrNoTemplate) {
		err = problem.Wrap(problem.ModelBroken, err,
			"The chat template in the model's "+s.file+" cannot be used",
			"Download or convert the model again.")
	}
	return t, err
}

// The names of templates that are used, of those that a model may have.
const (
	defaultTemplate = "default"
	toolUseTemplate = "tool_use"
)

// templateSources returns the model's chat templates by name. They are files, or else in the
// chat_template of tokenizer_config.json, whose value is config. Processors save theirs in
// chat_template.json. Errors are Problems.
// Source: transformers/tokenization_utils_base.py, transformers/processing_utils.py.
func templateSources(src checkpoint.Source, config json.RawMessage) (map[string]templateSource,
	error) {
	sources := map[string]templateSource{}
	for name, file := range map[string]string{
		defaultTemplate: "chat_template.jinja",
		toolUseTemplate: "additional_chat_templates/" + toolUseTemplate + ".jinja",
	} {
		data, err := src.ReadFile(file)
		switch {
		case err == nil:
			sources[name] = templateSource{file, string(data)}
		case !errors.Is(err, fs.ErrNotExist):
			return nil, unusable(file, err)
		}
	}
	if len(sources) > 0 {
		return sources, nil
	}
	file := "tokenizer_config.json"
	if isNull(config) {
		file = "chat_template.json"
		data, err := src.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		var saved struct {
			Template json.RawMessage `json:"chat_template"`
		}
		if err == nil {
			err = modelfile.Decode("", data, &saved)
		}
		if err != nil {
			return nil, unusable(file, err)
		}
		if config = saved.Template; isNull(config) {
			return nil, nil
		}
	}
	templates, err := namedTemplates(config)
	if err != nil {
		return nil, unusable(file, err)
	}
	for name, text := range templates {
		sources[name] = templateSource{file, text}
	}
	return sources, nil
}

// namedTemplates reads a chat_template: a text, a list of templates with names, or an object.
func namedTemplates(value json.RawMessage) (map[string]string, error) {
	templates := map[string]string{}
	switch value[0] {
	case '{':
		return templates, modelfile.Decode("chat_template", value, &templates)
	case '[':
		var list []struct {
			Name     string `json:"name"`
			Template string `json:"template"`
		}
		err := modelfile.Decode("chat_template", value, &list)
		for _, t := range list {
			templates[t.Name] = t.Template
		}
		return templates, err
	}
	var text string
	err := modelfile.Decode("chat_template", value, &text)
	templates[defaultTemplate] = text
	return templates, err
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
