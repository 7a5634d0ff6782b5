package commands

// What a person can do in a conversation besides asking: the lines that begin with a slash.

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"headroom/app/disk"
	"headroom/engine/chat"
	"headroom/engine/problem"
)

// slash is a command of a conversation.
type slash struct {
	name, args, help string
	// run carries it out. It returns the messages of which the last is to be answered; nil: none.
	run func(s *session, rest string) (asked []chat.Message, err error)
}

// slashes are the commands, in the order in which /help lists them.
func slashes() []slash {
	return []slash{
		{"/reset", "", "start a new conversation", (*session).reset},
		{"/retry", "", "answer the last question again", (*session).retry},
		{"/system", "TEXT", "set the system message; without TEXT, show it", (*session).setSystem},
		{"/save", "FILE", "save the conversation", (*session).save},
		{"/load", "FILE", "continue a saved conversation", (*session).load},
		{"/help", "", "show this list", (*session).help},
		{"/exit", "", "quit, as Ctrl-D does", func(*session, string) ([]chat.Message, error) {
			return nil, errExit
		}},
	}
}

// errExit ends the conversation.
var errExit = errors.New("exit")

// chatHelp is what a conversation begins with.
const chatHelp = "/help lists the commands, /exit or Ctrl-D quits, Ctrl-C stops an answer."

// slashForm is what a command looks like. A path such as /etc/hosts is none.
var slashForm = regexp.MustCompile(`^/[a-z]+(\s|$)`)

// command carries out a message that is a command. A message with a space in front is none.
func (s *session) command(message string) (is bool, asked []chat.Message,
	err error) {
	if !slashForm.MatchString(message) || strings.Contains(strings.TrimSpace(message), "\n") {
		return false, nil, nil
	}
	name, rest, _ := strings.Cut(strings.TrimSpace(message), " ")
	if name == "/quit" {
		name = "/exit"
	}
	all := slashes()
	i := slices.IndexFunc(all, func(c slash) bool { return c.name == name })
	switch {
	case i < 0:
		return true, nil, problem.New(problem.BadRequest, "There is no command "+name, "",
			"/help lists the commands. To send the text, put a space in front of it.")
	case rest != "" && all[i].args == "":
		return true, nil, problem.New(problem.BadRequest, name+" takes no argument", "",
			"To send the text, put a space in front of it.")
	}
	asked, err = all[i].run(s, strings.TrimSpace(rest))
	return true, asked, err
}

func (s *session) help(string) ([]chat.Message, error) {
	for _, c := range slashes() {
		fmt.Fprintf(s.errOut, "%-13s %s\n", strings.TrimSpace(c.name+" "+c.args), c.help)
	}
	fmt.Fprintf(s.errOut, "%-13s %s\n", block,
		"begin and end a message of several lines; a pasted text is one message")
	fmt.Fprintf(s.errOut, "%-13s %s\n", "Ctrl-C", "stop an answer; at the prompt, quit")
	return nil, nil
}

func (s *session) reset(string) ([]chat.Message, error) {
	s.messages, s.file = s.beginning(), ""
	fmt.Fprintln(s.errOut, "A new conversation starts.")
	return nil, nil
}

// beginning returns the messages before the first question.
func (s *session) beginning() []chat.Message {
	if s.system == "" {
		return nil
	}
	return []chat.Message{{Role: "system", Content: s.system}}
}

// retry asks the last question again. Its answer stays until there is another one.
func (s *session) retry(string) ([]chat.Message, error) {
	for i := len(s.messages) - 1; i >= 0; i-- {
		if s.messages[i].Role == "user" {
			return s.messages[:i+1], nil
		}
	}
	return nil, problem.New(problem.BadRequest, "There is no question yet", "", "")
}

// setSystem replaces the system message of the conversation.
func (s *session) setSystem(text string) ([]chat.Message, error) {
	if text == "" {
		fmt.Fprintln(s.errOut, cmp.Or(printable(s.system), "There is no system message."))
		return nil, nil
	}
	rest := slices.DeleteFunc(slices.Clone(s.messages),
		func(m chat.Message) bool { return m.Role == "system" })
	s.system = text
	s.messages = append(s.beginning(), rest...)
	fmt.Fprintln(s.errOut, "The system message was set.")
	return nil, nil
}

// savedChat is a conversation in a file. Its messages are those of a request to the endpoint.
type savedChat struct {
	Model    string         `json:"model"`
	Messages []savedMessage `json:"messages"`
}

type savedMessage struct {
	Role      string `json:"role"`
	Content   string `json:"content"`
	Reasoning string `json:"reasoning_content,omitempty"`
}

// fileOf returns the file that a command names.
func fileOf(name, command string) (string, error) {
	if name == "" {
		return "", problem.New(problem.BadRequest, command+" needs a file", "",
			"Name one, as in: "+command+" chat.json")
	}
	return kong.ExpandPath(name), nil
}

// save writes the conversation to a file. It replaces only the file that the conversation was saved
// to or loaded from.
func (s *session) save(name string) ([]chat.Message, error) {
	file, err := fileOf(cmp.Or(name, s.file), "/save")
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) && file != s.file {
		return nil, problem.New(problem.BadRequest, file+" exists already", "",
			"Choose another name.")
	}
	saved := savedChat{Model: s.talk.model.ID, Messages: []savedMessage{}}
	for _, m := range s.messages {
		saved.Messages = append(saved.Messages,
			savedMessage{m.Role, m.Content, m.ReasoningContent})
	}
	text, err := json.MarshalIndent(saved, "", "  ")
	if err == nil {
		err = disk.WriteFile(file, append(text, '\n'), 0o600)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, problem.New(problem.NotFound, "There is no folder "+filepath.Dir(file), "",
			"Check the path.")
	}
	if err != nil {
		return nil, problem.Wrap(problem.BadRequest, err, "The conversation was not saved", "")
	}
	s.file = file
	fmt.Fprintf(s.errOut, "The conversation is in %s.\n", oneLine(file))
	return nil, nil
}

// load replaces the conversation by that of a file.
func (s *session) load(name string) ([]chat.Message, error) {
	file, err := fileOf(name, "/load")
	if err != nil {
		return nil, err
	}
	text, _, err := disk.Read(file, maxPromptBytes)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, problem.New(problem.NotFound, "There is no file "+file, "",
				"Check the path.")
		}
		return nil, problem.Wrap(problem.BadRequest, err, "The conversation cannot be read", "")
	}
	messages, err := parseChat(text)
	if err != nil {
		return nil, problem.Wrap(problem.BadRequest, err, file+" is not a saved conversation",
			"Load a file that /save has written, or a JSON object with messages of the roles "+
				"system, user and assistant.")
	}
	s.messages, s.file, s.system = messages, file, ""
	questions := 0
	for _, m := range messages {
		switch m.Role {
		case "system":
			s.system = m.Content
		case "user":
			questions++
		}
	}
	fmt.Fprintf(s.errOut, "The conversation has %s.\n", count(questions, "question"))
	return nil, nil
}

// parseChat reads a saved conversation.
func parseChat(text []byte) ([]chat.Message, error) {
	var saved savedChat
	if err := json.Unmarshal(text, &saved); err != nil {
		return nil, err
	}
	if len(saved.Messages) == 0 {
		return nil, errors.New("it has no messages")
	}
	var messages []chat.Message
	for i, m := range saved.Messages {
		if !slices.Contains([]string{"system", "user", "assistant"}, m.Role) {
			return nil, fmt.Errorf("messages[%d] has the role %.80q", i, m.Role)
		}
		messages = append(messages, chat.Message{Role: m.Role, Content: m.Content,
			ReasoningContent: m.Reasoning})
	}
	return messages, nil
}
