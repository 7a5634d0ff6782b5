package textproc

// The files and keys in which a model may have chat templates.

import (
	"encoding/json"
	"errors"

	"headroom/engine/chat"
	"headroom/engine/checkpoint"
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
	sources := templateSources(src, config.ChatTemplate)
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
			"Download the model again.")
	}
	return t, err
}

// The names of templates that are used, of those that a model may have.
const (
	defaultTemplate = "default"
	toolUseTemplate = "tool_use"
)

// templateSources returns the model's chat templates by name. They are files, or else in the
// chat_template of tokenizer_config.json: a text, or a list of templates with names. Processors
// save theirs in chat_template.json.
// Source: transformers/tokenization_utils_base.py, transformers/processing_utils.py.
func templateSources(src checkpoint.Source, config json.RawMessage) map[string]templateSource {
	sources := map[string]templateSource{}
	for name, file := range map[string]string{
		defaultTemplate: "chat_template.jinja",
		toolUseTemplate: "additional_chat_templates/" + toolUseTemplate + ".jinja",
	} {
		if data, err := src.ReadFile(file); err == nil {
			sources[name] = templateSource{file, string(data)}
		}
	}
	if len(sources) > 0 {
		return sources
	}
	file := "tokenizer_config.json"
	var saved struct {
		Template json.RawMessage `json:"chat_template"`
	}
	if data, err := src.ReadFile("chat_template.json"); err == nil && isNull(config) {
		_ = json.Unmarshal(data, &saved)
		file, config = "chat_template.json", saved.Template
	}
	var text string
	var list []struct{ Name, Template string }
	if json.Unmarshal(config, &text) == nil {
		sources[defaultTemplate] = templateSource{file, text}
	} else if json.Unmarshal(config, &list) == nil {
		for _, t := range list {
			sources[t.Name] = templateSource{file, t.Template}
		}
	}
	return sources
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
