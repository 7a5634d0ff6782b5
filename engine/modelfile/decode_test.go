package modelfile

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/fstest"
)

func TestStandard(t *testing.T) {
	for text, want := range map[string]string{
		`{"a": [0.0, Infinity]}`: `{"a": [0.0, 1e999]}`,
		`[-Infinity,NaN]`:        `[-1e999,"NaN"]`,
		`{"Infinity": "NaN \" Infinity", "b\\": Infinity}`: `{"Infinity": "NaN \" Infinity", ` +
			`"b\\": 1e999}`,
		"\uFEFF{}":                   `{}`,
		"\uFEFF\uFEFF{}":             "\uFEFF{}",
		`{"a": "Infinity"}`:          `{"a": "Infinity"}`,
		`[Inf, Nan, Infinit`:         `[Inf, Nan, Infinit`,
		`NaN`:                        `"NaN"`,
		`["Infinity", "`:             `["Infinity", "`,
		`["Infinity", Infinity, "\\`: `["Infinity", 1e999, "\\`,
	} {
		if got := string(Standard([]byte(text))); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// TestReadStandard checks that files of JSON have no byte order mark, whatever their names, and
// that others keep it.
func TestReadStandard(t *testing.T) {
	for name, want := range map[string]string{"config.json": `[1e999]`, "tokenizer.json": `[1e999]`,
		"other.json": `[1e999]`, "chat_template.jinja": "\uFEFF[Infinity]"} {
		files := fstest.MapFS{name: {Data: []byte("\uFEFF[Infinity]")}}
		if got, err := ReadFS(files, name); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
	}
}

func TestReadPointer(t *testing.T) {
	const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
	for _, name := range []string{"config.json", "chat_template.jinja", "tokenizer.model"} {
		_, err := ReadFS(fstest.MapFS{name: {Data: []byte(pointer)}}, name)
		if err == nil || !strings.Contains(err.Error(), name+" is only a Git LFS pointer") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

type decodedBase struct {
	Hidden int    `json:"hidden_size"`
	Name   string `json:"name"`
}

type decoded struct {
	decodedBase
	Name   string                     `json:"name"` // hides the other
	Eps    float32                    `json:"eps"`
	Tie    *bool                      `json:"tie"`
	Limits []float64                  `json:"limits"`
	Raw    json.RawMessage            `json:"raw"`
	Any    any                        `json:"any"`
	Parts  map[string]json.RawMessage `json:"parts"`
	Inner  *struct {
		Factor  float64 `json:"factor"`
		Factors map[string]struct {
			N int `json:"n"`
		} `json:"factors"`
	} `json:"inner"`
	Untagged int
}

func TestDecode(t *testing.T) {
	yes := true
	v := decoded{Eps: 1, Tie: &yes, Limits: []float64{1}}
	err := Decode("", []byte(`{"hidden_size":2,"Hidden_Size":99,"HIDDEN_SIZE":98,"EPS":7,"eps":null,`+
		`"name":"n","tie":null,"limits":[0.0,1e999,-1e999],"raw":null,"any":{"a":[1]},`+
		`"parts":{"A":1,"a":2},"Untagged":1,"inner":{"factor":2,"Factor":3,"other":"x",`+
		`"factors":{"f":{"n":4,"N":5}}},"unknown":{}}`), &v)
	if err != nil {
		t.Fatal(err)
	}
	if v.Hidden != 2 || v.Name != "n" || v.decodedBase.Name != "" || v.Eps != 1 || v.Tie != nil ||
		len(v.Limits) != 3 || v.Limits[0] != 0 || !math.IsInf(v.Limits[1], 1) ||
		!math.IsInf(v.Limits[2], -1) || string(v.Raw) != "null" || v.Any == nil ||
		string(v.Parts["A"]) != "1" || string(v.Parts["a"]) != "2" || v.Untagged != 0 ||
		v.Inner.Factor != 2 || v.Inner.Factors["f"].N != 4 {
		t.Errorf("got %+v, inner %+v", v, v.Inner)
	}
	for text, want := range map[string]int{"4096.0": 4096, "4.096e3": 4096, "-2e0": -2, "0.0": 0} {
		if err := Decode("", []byte(`{"hidden_size":`+text+`}`), &v); err != nil ||
			v.Hidden != want {
			t.Errorf("the integer %s: got %d, %v", text, v.Hidden, err)
		}
	}
	if err := Decode("", []byte(`{"inner":{"factors":{}}}`), &v); err != nil ||
		v.Inner.Factor != 2 {
		t.Errorf("an absent key changes its field: %+v, %v", v.Inner, err)
	}
}

func TestDecodeErrors(t *testing.T) {
	for text, want := range map[string]string{
		`[]`:                       "it is an array, expected an object",
		`"x"`:                      `it is "x", expected an object`,
		`{"hidden_size":"many"}`:   `hidden_size is "many", expected an integer`,
		`{"hidden_size":1.5}`:      "hidden_size is 1.5, expected an integer",
		`{"hidden_size":1e999}`:    "hidden_size is 1e999, expected an integer",
		`{"hidden_size":1e17}`:     "hidden_size is 1e17, expected an integer",
		`{"eps":true}`:             "eps is true, expected a number",
		`{"eps":"NaN"}`:            `eps is "NaN", expected a number`,
		`{"tie":{}}`:               "tie is an object, expected true or false",
		`{"name":[1]}`:             "name is an array, expected a text",
		`{"limits":3}`:             "limits is 3, expected an array",
		`{"limits":[1,"x"]}`:       `limits[1] is "x", expected a number`,
		`{"inner":1}`:              "inner is 1, expected an object",
		`{"inner":{"factor":"x"}}`: `inner.factor is "x", expected a number`,
		`{"inner":{"factors":{"f":{"n":[]}}}}`: "inner.factors.f.n is an array, expected an " +
			"integer",
		`{"hidden_size":"` + strings.Repeat("x", 50) + `"}`: "hidden_size is a text of 50 bytes, " +
			"expected an integer",
	} {
		v := decoded{}
		err := Decode("", []byte(text), &v)
		if kind := new(KindError); !errors.As(err, &kind) || err.Error() != want {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	v := decoded{}
	if err := Decode("", []byte(`{"eps":"x","hidden_size":3,"name":"n"}`), &v); err == nil ||
		v.Hidden != 3 || v.Name != "n" {
		t.Errorf("the fields beside a wrong one: got %+v, %v", v, err)
	}
	var syntax *json.SyntaxError
	if err := Decode("", []byte(`{"a`), &v); !errors.As(err, &syntax) {
		t.Errorf("not JSON: got %v", err)
	}
}

// FuzzDecode checks that Decode accepts what encoding/json accepts, but for keys in another case.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{`{"hidden_size":2,"inner":{"factor":1}}`, `{"limits":[1,2]}`,
		`{"parts":{"a":null}}`, `null`, `{"eps":"x"}`, `{"any":[1e999]}`, "\uFEFF{\"a\":Infinity}"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		data = Standard(data)
		var v decoded
		err := Decode("", data, &v)
		if valid := json.Valid(data); !valid && err == nil {
			t.Fatalf("%q is not JSON", data)
		}
		var want decoded
		if strings.ToLower(string(data)) == string(data) && json.Unmarshal(data, &want) == nil &&
			err != nil && !strings.Contains(string(data), "\\") {
			t.Fatalf("%q: %v, but encoding/json accepts it", data, err)
		}
	})
}
