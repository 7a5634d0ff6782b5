package commands

import (
	"encoding/json"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"headroom/app/control"
	"headroom/app/keys"
	"headroom/app/machines"
)

// freePort returns a port of loopback on which nothing listens now.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// homes are the variables of the environment that isolate sets.
func homes() map[string]string {
	list := map[string]string{}
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"} {
		list[name] = os.Getenv(name)
	}
	return list
}

func enter(t *testing.T, home map[string]string) {
	t.Helper()
	for name, value := range home {
		t.Setenv(name, value)
	}
}

// shown runs `headroom pair` in the background, and returns its code and, at its end, what it has
// printed.
func shown(t *testing.T, args ...string) (code string, ended func() (int, string, string)) {
	t.Helper()
	type result struct {
		code     int
		out, err string
	}
	done, out := make(chan result, 1), &lastBytes{}
	go func() {
		errOut := &lastBytes{}
		code := Main(append([]string{"pair"}, args...), strings.NewReader(""), out, errOut)
		done <- result{code, string(out.Bytes()), string(errOut.Bytes())}
	}()
	digits := regexp.MustCompile(`Code: (\d{4} \d{4})\n`)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if m := digits.FindStringSubmatch(string(out.Bytes())); m != nil {
			code = m[1]
			break
		}
		select {
		case r := <-done:
			t.Fatalf("exit %d: %s %s", r.code, r.out, r.err)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("there is no code")
		}
	}
	return code, func() (int, string, string) {
		r := <-done
		return r.code, r.out, r.err
	}
}

// TestPair pairs the settings of one user with the server of another, by commands.
func TestPair(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
	isolate(t)
	laptop := homes()
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, 1, "No Headroom is running here"},
		{[]string{"--list"}, 1, "No Headroom is running here"},
		{[]string{"--list", "studio"}, 2, "leave out the address"},
		{[]string{"--code", "12345678"}, 2, "--code is for the address"},
		{[]string{"--json"}, 2, "--json is for --list"},
		{[]string{"http://studio"}, 1, "not the address of a machine"},
		{[]string{"1234@studio"}, 1, "The code is not valid"},
		{[]string{"--code", "1", "12345678@studio"}, 1, "given twice"},
		{[]string{"12345678@127.0.0.1:1", "--both"}, 1, "No Headroom is running here"},
		{[]string{"12345678@127.0.0.1:1"}, 1, "does not answer"},
		{[]string{"127.0.0.1:1"}, 1, "The code is missing"},
	} {
		code, out, errOut := headroom("", append([]string{"pair"}, c.args...)...)
		if code != c.code || !strings.Contains(errOut, c.says) {
			t.Errorf("pair %q: exit %d, %s %s", c.args, code, out, errOut)
		}
	}
	isolate(t)
	studio, port := homes(), freePort(t)
	startServer(t, "--machines-host", "127.0.0.1", "--machines-port", port)
	if code, _, errOut := headroom("", "pair"); code != 1 ||
		!strings.Contains(errOut, "This machine is not shared") {
		t.Errorf("while it is not shared: exit %d, %s", code, errOut)
	}
	typed, ended := shown(t, "--share")
	enter(t, laptop)
	address := "127.0.0.1:" + port
	wrong := strings.Map(func(r rune) rune {
		if r == ' ' {
			return r
		}
		return '0' + (r-'0'+1)%10
	}, typed)
	if code, _, errOut := headroom(wrong+"\n", "pair", address); code != 1 ||
		!strings.Contains(errOut, "The code is wrong") {
		t.Errorf("with a wrong code: exit %d, %s", code, errOut)
	}
	code, out, errOut := headroom(typed+"\n", "pair", address)
	if code != 0 || !strings.Contains(out, "can be used from this machine") {
		t.Fatalf("exit %d, %s %s", code, out, errOut)
	}
	if code, out, errOut := ended(); code != 0 || !strings.Contains(out, "Paired: ") {
		t.Errorf("the other side: exit %d, %s %s", code, out, errOut)
	}
	dir, err := control.SettingsDir()
	if err != nil {
		t.Fatal(err)
	}
	store, err := machines.Open(dir)
	if err != nil || len(store.List()) != 1 || store.List()[0].URL != "https://"+address {
		t.Fatalf("stored %+v, %v", store.List(), err)
	}
	if key, err := store.Secret(store.List()[0]); err != nil || !strings.HasPrefix(key, "hr-") {
		t.Errorf("the key is %q, %v", key, err)
	}
	enter(t, studio)
	var state control.Sharing
	_, out, _ = headroom("", "pair", "--list", "--json")
	if err := json.Unmarshal([]byte(out), &state); err != nil || !state.Open ||
		len(state.Users) != 1 || !strings.HasPrefix(state.Users[0].Name, "paired: ") {
		t.Errorf("the list: %s, %v", out, err)
	}
	if dir, err = control.SettingsDir(); err != nil {
		t.Fatal(err)
	}
	named, err := keys.Open(dir)
	if err != nil || named.Any() || len(named.List()) != 1 {
		t.Errorf("the keys: %v, %v", named.List(), err)
	}
	if code, _, errOut := headroom("", "pair", "--share=false"); code != 0 ||
		!strings.Contains(errOut, "No other machine can use this one now") {
		t.Errorf("exit %d, %s", code, errOut)
	}
	if conn, err := net.Dial("tcp", address); err == nil {
		_ = conn.Close()
		t.Error("the port is still open")
	}
}
