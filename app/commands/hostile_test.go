package commands

// A generator of hostile model folders. Each folder is the demo model with one or two mutations:
// any key of any JSON file, the header of the weights, the tokenizer, the template, or the kind of
// a file. The same seed makes the same folder.

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"headroom/app/demo"
)

// jsonFiles are the files whose keys the generator mutates, except for the weights.
var jsonFiles = []string{"config.json", "generation_config.json", "tokenizer.json",
	"tokenizer_config.json"}

const (
	weightsFile  = "model.safetensors"
	templateFile = "chat_template.jinja"
)

// hostile makes folders.
type hostile struct {
	t      testing.TB
	files  map[string][]byte
	shared string // a copy of the weights, to which folders link
}

func newHostile(t testing.TB) *hostile {
	h := &hostile{t: t, files: map[string][]byte{},
		shared: filepath.Join(t.TempDir(), weightsFile)}
	for _, name := range append(jsonFiles, weightsFile, templateFile) {
		data, err := fs.ReadFile(demo.Files, "model/"+name)
		if err != nil {
			t.Fatal(err)
		}
		h.files[name] = data
	}
	h.write(h.shared, h.files[weightsFile])
	return h
}

func (h *hostile) write(path string, data []byte) {
	if err := os.WriteFile(path, data, 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// mutation changes one thing of a folder and says what.
type mutation func(h *hostile, f *hostileFolder, r *rand.Rand) string

// hostileFolder is a folder that is being made. A file of a nil slice is not written.
type hostileFolder struct {
	dir   string
	files map[string][]byte
	after []func() // run when the files are written
}

// mutations are chosen at random. Those for keys appear several times, because there are many keys.
var mutations = []mutation{mutateKey, mutateKey, mutateKey, mutateKey, mutateKey, mutateBytes,
	mutateKind, mutateHeader, mutateHeader, mutateTensor, mutateTensor, mutateIndex, mutateTemplate,
	mutateTemplate, mutateTemplate, mutateTokenizer, mutateTokenizer, mutateTokenizer,
	mutateGeneration}

// plant writes the folder of a seed, and returns what is wrong with it.
func (h *hostile) plant(dir string, seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 1))
	f := &hostileFolder{dir: dir, files: maps.Clone(h.files)}
	var done []string
	// The first folders have one mutation of each kind.
	kinds := []mutation{mutations[int(seed)%len(mutations)]}
	if r.IntN(4) == 0 {
		kinds = append(kinds, mutations[r.IntN(len(mutations))])
	}
	for _, mutate := range kinds {
		done = append(done, mutate(h, f, r))
	}
	h.finish(f)
	return strings.Join(done, "; ")
}

// reported are folders that have ended or stalled a server once, whatever the seeds make. answer is
// a part of what a client gets that waits: it tells the bound that ended the work.
var reported = []struct {
	what, answer string
	make         func(f *hostileFolder)
}{
	{"a filter without end", "the template takes too", func(f *hostileFolder) {
		f.files[templateFile] = []byte(endless("{% set b = a|unique|list %}"))
	}},
	{"a loop without end", "the template takes too long", func(f *hostileFolder) {
		f.files[templateFile] = []byte(endless(""))
	}},
	{"a normalizer that doubles 30 times", "makes too much text", func(f *hostileFolder) {
		f.setTokenizer("normalizer", doubling(30))
	}},
	{"a normalizer that doubles an added token", "makes too much text", func(f *hostileFolder) {
		f.setTokenizer("normalizer", doubling(30))
		// The first id after those of the vocabulary.
		f.setTokenizer("added_tokens", `[{"id":2084,"content":"a<|boom|>","normalized":true}]`)
	}},
	{"a decoder that makes a million of one", "expected at most 64", func(f *hostileFolder) {
		f.setTokenizer("decoder", sequence(`{"type":"Replace","pattern":{"Regex":"."},"content":"`+
			strings.Repeat("z", 1000)+`"}`, "decoders", 2))
	}},
	{"an expression of exponential time", `"choices"`, func(f *hostileFolder) {
		f.setTokenizer("pre_tokenizer", splits("(a+)+$", 1))
	}},
	{"an expression of 200,000 groups", "the limit is 16384", func(f *hostileFolder) {
		f.setTokenizer("pre_tokenizer", splits(strings.Repeat("(", 200_000)+
			strings.Repeat(")", 200_000), 1))
	}},
	{"a tokenizer without its added tokens", `"choices"`, func(f *hostileFolder) {
		f.setTokenizer("added_tokens", "[]")
	}},
	{"200 MB of config.json", "expected at most 4194304", func(f *hostileFolder) {
		f.files["config.json"] = nil
		path := filepath.Join(f.dir, "config.json")
		f.after = append(f.after, func() { _ = sparse(path, 200<<20) })
	}},
}

// plantReported writes a folder of reported.
func (h *hostile) plantReported(i int, dir string) string {
	f := &hostileFolder{dir: dir, files: maps.Clone(h.files)}
	reported[i].make(f)
	h.finish(f)
	return reported[i].what
}

// finish writes the folder.
func (h *hostile) finish(f *hostileFolder) {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		h.t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(f.files)) {
		path, data := filepath.Join(f.dir, name), f.files[name]
		switch {
		case data == nil:
		case name == weightsFile && &data[0] == &h.files[weightsFile][0]:
			if err := os.Symlink(h.shared, path); err != nil {
				h.t.Fatal(err)
			}
		default:
			h.write(path, data)
		}
	}
	for _, f := range f.after {
		f()
	}
}

// nasty returns JSON that hardly any key expects.
func nasty(r *rand.Rand) string {
	values := []string{"null",
		"true", "-1", "0", "1", "3", "0.5", "-0.5", "1e308", "1e400", "1e-320",
		"2147483648", "9223372036854775807", "-9223372036854775808", "18446744073709551616", `""`,
		`"a"`, `"../../etc/passwd"`, `"\u0000"`, `"\ud800"`, "[]", "{}", "[[]]", `{"":null}`,
		`[1,2,3]`, `["a","b"]`, "1000000", "65536", `"1"`, "99999999999", "NaN", "[1e9]",
		`"` + strings.Repeat("a", 1<<20) + `"`, strings.Repeat("[", 20) + strings.Repeat("]", 20),
		strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000),
		strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300),
		"[" + strings.Repeat("0,", 100_000) + "0]", "1" + strings.Repeat("0", 10_000)}
	return values[r.IntN(len(values))]
}

// mutateJSON replaces, removes or repeats a value at a random path of a JSON text.
func mutateJSON(r *rand.Rand, text []byte, path string) (out []byte, what string) {
	replace := func() ([]byte, string) {
		value := nasty(r)
		return []byte(value), fmt.Sprintf("%s = %.40s", path, value)
	}
	var object map[string]json.RawMessage
	var list []json.RawMessage
	deeper := r.IntN(5) > 0
	switch {
	case deeper && json.Unmarshal(text, &object) == nil && len(object) > 0:
		keys := slices.Sorted(maps.Keys(object))
		key := keys[r.IntN(len(keys))]
		if r.IntN(8) == 0 {
			delete(object, key)
			what = path + "." + key + " removed"
		} else {
			object[key], what = mutateJSON(r, object[key], path+"."+key)
		}
		var b bytes.Buffer // by hand, because the values need not be valid JSON
		for i, key := range slices.Sorted(maps.Keys(object)) {
			name, _ := json.Marshal(key)
			fmt.Fprintf(&b, "%c%s:%s", "{,"[min(i, 1)], name, object[key])
		}
		if b.Len() == 0 {
			return []byte("{}"), what
		}
		return append(b.Bytes(), '}'), what
	case deeper && json.Unmarshal(text, &list) == nil && len(list) > 0:
		i := r.IntN(len(list))
		list[i], what = mutateJSON(r, list[i], fmt.Sprintf("%s[%d]", path, i))
		return append(append([]byte("["),
			bytes.Join(rawBytes(list), []byte(","))...), ']'), what
	}
	return replace()
}

func rawBytes(list []json.RawMessage) (out [][]byte) {
	for _, one := range list {
		out = append(out, one)
	}
	return out
}

func mutateKey(_ *hostile, f *hostileFolder, r *rand.Rand) (what string) {
	name := jsonFiles[r.IntN(len(jsonFiles))]
	if r.IntN(2) == 0 {
		name = "config.json"
	}
	f.files[name], what = mutateJSON(r, f.files[name], name)
	return what
}

func mutateBytes(_ *hostile, f *hostileFolder, r *rand.Rand) string {
	names := append(slices.Clone(jsonFiles), templateFile)
	name := names[r.IntN(len(names))]
	data := slices.Clone(f.files[name])
	switch r.IntN(6) {
	case 0:
		f.files[name] = data[:r.IntN(len(data))]
	case 1:
		for range 20 {
			data[r.IntN(len(data))] ^= 1 << r.IntN(8)
		}
		f.files[name] = data
	case 2:
		f.files[name] = append([]byte("\xef\xbb\xbf"), data...)
	case 3:
		f.files[name] = []byte{}
	case 4:
		f.files[name] = bytes.Repeat([]byte("{\"a\":["), 50_000)
	default:
		f.files[name] = append(data, data...)
	}
	return "bytes of " + name
}

// mutateKind replaces a file by something that is not one, or by a huge one without content.
func mutateKind(h *hostile, f *hostileFolder, r *rand.Rand) string {
	names := append(slices.Clone(jsonFiles), templateFile, weightsFile, "preprocessor_config.json")
	name := names[r.IntN(len(names))]
	f.files[name] = nil
	path := filepath.Join(f.dir, name)
	kinds := []struct {
		what string
		make func() error
	}{
		{"a link to /dev/zero", func() error { return os.Symlink("/dev/zero", path) }},
		{"a pipe", func() error { return syscall.Mkfifo(path, 0o600) }},
		{"a link to a pipe", func() error {
			_ = syscall.Mkfifo(filepath.Join(f.dir, "p"), 0o600)
			return os.Symlink("p", path)
		}},
		{"a folder", func() error { return os.Mkdir(path, 0o700) }},
		{"a link to itself", func() error { return os.Symlink(name, path) }},
		{"a link to /proc/self/environ", func() error {
			return os.Symlink("/proc/self/environ", path)
		}},
		{"a link to nothing", func() error { return os.Symlink("gone", path) }},
		{"200 MB of nothing", func() error { return sparse(path, 200<<20) }},
		{"1 TB of nothing", func() error { return sparse(path, 1<<40) }},
		{"missing", func() error { return nil }},
	}
	k := kinds[r.IntN(len(kinds))]
	f.after = append(f.after, func() {
		if err := k.make(); err != nil {
			h.t.Logf("%s: %v", path, err)
		}
	})
	return name + " is " + k.what
}

func sparse(path string, bytes int64) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return file.Truncate(bytes)
}

// header returns the header of the weights and the data after it.
func (f *hostileFolder) header() (header, data []byte) {
	file := f.files[weightsFile]
	if len(file) < 8 {
		return []byte("{}"), nil
	}
	end := 8 + int(min(binary.LittleEndian.Uint64(file), uint64(len(file)-8)))
	return file[8:end], file[end:]
}

func (f *hostileFolder) setHeader(header, data []byte) {
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	f.files[weightsFile] = append(append(file, header...), data...)
}

// mutateHeader changes the file around the header's values.
func mutateHeader(_ *hostile, f *hostileFolder, r *rand.Rand) string {
	header, data := f.header()
	cases := []struct {
		what string
		make func()
	}{
		{"an odd header length", func() {
			f.setHeader(append(slices.Clone(header),
				bytes.Repeat([]byte(" "), 1+r.IntN(63))...), data)
		}},
		{"another header length", func() {
			f.setHeader(header, data)
			lengths := []uint64{0, 1, 7, uint64(len(header) - 1), uint64(len(header) + 1), 1 << 20,
				1 << 27, 1 << 40, 1<<63 - 1, 1<<64 - 1, r.Uint64()}
			binary.LittleEndian.PutUint64(f.files[weightsFile], lengths[r.IntN(len(lengths))])
		}},
		{"a truncated file", func() { f.setHeader(header, data[:r.IntN(len(data)+1)]) }},
		{"a longer file", func() { f.setHeader(header, append(slices.Clone(data), 0)) }},
		{"many empty tensors", func() {
			var b bytes.Buffer
			for i := range 200_000 {
				fmt.Fprintf(&b, `,"e%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}`, i)
			}
			f.setHeader(slices.Concat(bytes.TrimRight(header, " }"), []byte("}"), b.Bytes(),
				[]byte("}")), data)
		}},
		{"a tensor of 100,000 dimensions", func() {
			f.setHeader(slices.Concat([]byte(`{"d":{"dtype":"U8","shape":[1`),
				bytes.Repeat([]byte(",1"), 100_000), []byte(`],"data_offsets":[0,1]}}`)), []byte{0})
		}},
		{"MTP tensors", func() {
			f.setHeader(bytes.ReplaceAll(bytes.TrimRight(header, " "),
				[]byte(`"model.layers.1.`), []byte(`"mtp.layers.1.`)), data)
		}},
		{"deep metadata", func() {
			f.setHeader([]byte(`{"__metadata__":`+strings.Repeat("[", 100_000)), data)
		}},
	}
	c := cases[r.IntN(len(cases))]
	c.make()
	return c.what
}

// mutateTensor mutates a key of the header.
func mutateTensor(_ *hostile, f *hostileFolder, r *rand.Rand) string {
	header, data := f.header()
	changed, what := mutateJSON(r, header, "header")
	f.setHeader(changed, data)
	return what
}

func mutateIndex(_ *hostile, f *hostileFolder, r *rand.Rand) string {
	shards := []string{weightsFile, "../" + weightsFile, "/etc/passwd", "", "model-2.safetensors",
		strings.Repeat("a", 5000)}
	var b bytes.Buffer
	b.WriteString(`{"metadata":{"total_size":` + nasty(r) + `},"weight_map":{"a":"x"`)
	for i := range []int{1, 100, 50_000}[r.IntN(3)] {
		fmt.Fprintf(&b, `,"t%d":%q`, i, shards[r.IntN(len(shards))])
	}
	b.WriteString("}}")
	f.files["model.safetensors.index.json"] = b.Bytes()
	return "an index"
}

// endless is a loop that no budget of steps ends soon, around a statement.
func endless(statement string) string {
	return "{% set a = range(90000)|list %}{% set s = 'ab' * 400000 %}{% for i in range(9999) %}" +
		"{% for j in range(9999) %}" + statement + "{% endfor %}{% endfor %}"
}

// hostileTemplates try to use time, memory or the stack.
var hostileTemplates = []string{
	endless("{% set b = a|unique|list %}"), endless("{% set b = a|sort %}"),
	endless("{% set b = s|indent %}"), endless("{% set b = s|reverse %}"),
	endless("{% set b = s.replace('a', 'bb') %}"), endless("{% set b = s.strip('ab') %}"),
	endless("{% set b = a|join(s[:9]) %}"), endless("{% set b = s|tojson %}"),
	endless("{% set b = messages|tojson %}"), endless(""), endless("{{ s }}"),
	"{% set n = namespace(s=[1]) %}{% for i in range(99) %}{% set n.s = [n.s, n.s] %}{% endfor %}" +
		"{{ n.s }}",
	"{% set n = namespace(s='x') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
	"{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
	"{{ messages" + strings.Repeat("|list", 40_000) + " }}",
	"{{ " + strings.Repeat("(", 50_000), "{{ '" + strings.Repeat("'\n'", 200_000) + "' }}",
	strings.Repeat("{% if 1 %}", 9_000), "{{ raise_exception(range(99999)) }}",
	"{{ " + strings.Repeat("9", 500_000) + " }}", "{{ 9 ** 9 ** 9 }}", "{{ '%999999999d' % 1 }}",
	"{{ strftime_now('%A' * 99999) }}", "{{ ''.__class__ }}", "{% include '/etc/passwd' %}",
	"{{ messages }}" + strings.Repeat("a", 2<<20), strings.Repeat("<|im_end|>", 50_000),
	"{% for m in messages %}{{ m.content * 2000 }}{% endfor %}", "", "\xff\xfe", "{#",
}

func mutateTemplate(_ *hostile, f *hostileFolder, r *rand.Rand) string {
	i := r.IntN(len(hostileTemplates))
	f.files[templateFile] = []byte(hostileTemplates[i])
	if r.IntN(3) == 0 { // from tokenizer_config.json
		f.files[templateFile] = nil
		config := map[string]any{}
		_ = json.Unmarshal(f.files["tokenizer_config.json"], &config)
		config["chat_template"] = hostileTemplates[i]
		f.files["tokenizer_config.json"], _ = json.Marshal(config)
	}
	return fmt.Sprintf("template %d: %.60q", i, hostileTemplates[i])
}

// splits returns a pre-tokenizer that splits by an expression several times.
func splits(regex string, times int) string {
	text, _ := json.Marshal(regex)
	return sequence(`{"type":"Split","pattern":{"Regex":`+string(text)+
		`},"behavior":"Isolated","invert":false}`, "pretokenizers", times,
		`{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false,"use_regex":false}`)
}

const replace = `{"type":"Replace","pattern":{"String":"a"},"content":"aa"}`

// doubling returns a normalizer that doubles each a n times.
func doubling(n int) string { return sequence(replace, "normalizers", n) }

// sequence returns a part of a tokenizer that is another part n times, and then others.
func sequence(kind, list string, n int, others ...string) string {
	return `{"type":"Sequence","` + list + `":[` +
		strings.Join(append(slices.Repeat([]string{kind}, n), others...), ",") + `]}`
}

// mutateTokenizer sets a part of tokenizer.json to one that may use much time or memory.
func mutateTokenizer(_ *hostile, f *hostileFolder, r *rand.Rand) string {
	split := func(regex string) string { return splits(regex, 1) }
	cases := []struct{ key, value string }{
		{"normalizer", doubling(40)},
		{"normalizer", sequence(strings.Replace(replace, `"aa"`, `"`+strings.Repeat("a", 9999)+`"`,
			1), "normalizers", 3)},
		{"normalizer", sequence(`{"type":"NFD"}`, "normalizers", 5000)},
		{"decoder", sequence(replace, "decoders", 30)},
		{"normalizer", `{"type":"Prepend","prepend":"` + strings.Repeat("a", 1<<20) + `"}`},
		{"pre_tokenizer", split("(a+)+$")}, {"pre_tokenizer", split("(a|a)*b")},
		{"pre_tokenizer", split("(a{1,1000}){1,1000}")}, {"pre_tokenizer", split("(?=(a+))\\1b")},
		{"pre_tokenizer", split(strings.Repeat("(", 200_000) + strings.Repeat(")", 200_000))},
		{"pre_tokenizer", split("")}, {"pre_tokenizer", split("a*?")},
		{"pre_tokenizer", split("[")},
		{"pre_tokenizer", splits("a", 2000)}, {"pre_tokenizer", splits("(a+)+$", 99)},
		{"pre_tokenizer", split("(.*)*(.*)*(.*)*[^!]$")}, {"pre_tokenizer", split("\\w{0,900}!!")},
		{"added_tokens", `[{"id":1,"content":"","special":true,"normalized":true}]`},
		{"added_tokens", "[]"},
		{"added_tokens", `[{"id":-1,"content":"a","special":true},{"id":99999999999,"content":"b"}]`},
		{"added_tokens", "[" + strings.Repeat(`{"id":1,"content":"aa","lstrip":true},`, 50_000) +
			`{"id":1,"content":"b"}]`},
		{"post_processor", sequence(`{"type":"TemplateProcessing","single":[`+
			strings.Repeat(`{"SpecialToken":{"id":"a","type_id":0}},`, 9999)+
			`{"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":{"a":{"id":"a",`+
			`"ids":[1],"tokens":["a"]}}}`, "processors", 2)},
		{"decoder", nasty(r)}, {"model", nasty(r)},
		{"model", `{"type":"BPE","vocab":{},"merges":[]}`},
		{"model", `{"type":"BPE","vocab":{"a":0,"aa":1},"merges":[["a","a"],["aa","aa"],["x","y"]]}`},
	}
	c := cases[r.IntN(len(cases))]
	f.setTokenizer(c.key, c.value)
	return fmt.Sprintf("%s of the tokenizer: %.60s", c.key, c.value)
}

// setTokenizer sets a key of tokenizer.json to a text, which need not be JSON.
func (f *hostileFolder) setTokenizer(key, value string) {
	var tokenizer map[string]json.RawMessage
	if json.Unmarshal(f.files["tokenizer.json"], &tokenizer) != nil {
		tokenizer = map[string]json.RawMessage{}
	}
	delete(tokenizer, key)
	rest, _ := json.Marshal(tokenizer)
	text := strings.TrimSuffix(string(rest), "}")
	if len(tokenizer) > 0 {
		text += ","
	}
	f.files["tokenizer.json"] = []byte(text + `"` + key + `":` + value + "}")
}

func mutateGeneration(_ *hostile, f *hostileFolder, r *rand.Rand) string {
	keys := []string{"eos_token_id", "temperature", "top_p", "top_k", "repetition_penalty", "min_p"}
	key, value := keys[r.IntN(len(keys))], nasty(r)
	f.files["generation_config.json"] = []byte(`{"` + key + `":` + value + `}`)
	return fmt.Sprintf("generation_config.json: %s = %.40s", key, value)
}
