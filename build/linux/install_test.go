package linux

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// These tests pack, unpack and install an archive with fake programs.
// app/cmd/headroom-agent/desktop_package_test.go installs the real ones on a virtual desktop.

// unpacked creates an archive and unpacks it. The path contains a space.
func unpacked(t *testing.T) (folder string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the archive is for Linux and needs GNU tar")
	}
	dir := filepath.Join(t.TempDir(), "a folder")
	programs := filepath.Join(dir, "programs")
	for _, name := range []string{"headroom", "headroom-agent", "headroom-window"} {
		write(t, filepath.Join(programs, name), "#!/bin/sh\necho "+name+"\n")
	}
	archive := filepath.Join(dir, "headroom-0.1.0-linux-amd64.tar.gz")
	pack(t, programs, archive)
	run(t, nil, "tar", "-xzf", archive, "-C", dir)
	return strings.TrimSuffix(archive, ".tar.gz")
}

func pack(t *testing.T, programs, archive string) {
	t.Helper()
	for _, script := range []string{"tarball", "install", "headroom.desktop", "../THIRD_PARTY.md"} {
		if _, err := os.ReadFile(script); err != nil { // makes the test cache depend on it
			t.Fatal(err)
		}
	}
	run(t, nil, "./tarball", programs, archive)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	command := exec.Command(name, args...)
	command.Env = append(os.Environ(), env...)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// files lists the files in a folder, links with their targets, without the caches of desktops.
func files(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "mimeinfo.cache" {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if target, err := os.Readlink(path); err == nil {
			name += " -> " + target
		}
		all = append(all, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestInstallAndUninstall(t *testing.T) {
	folder := unpacked(t)
	home := filepath.Join(t.TempDir(), "Ada & Co")
	env := []string{"HOME=" + home, "XDG_CONFIG_HOME=", "XDG_CACHE_HOME=", "XDG_DATA_HOME="}
	kept := filepath.Join(home, ".local/share/headroom/models/config.json")
	write(t, kept, "{}")
	for range 2 { // the second time is an update
		output := run(t, env, filepath.Join(folder, "install"))
		if !strings.Contains(output, home+"/.local/bin is not in your PATH") {
			t.Errorf("output %s", output)
		}
	}
	local := filepath.Join(home, ".local")
	want := []string{"bin/headroom -> ../lib/headroom/headroom"}
	for _, name := range []string{"THIRD_PARTY.md", "headroom", "headroom-agent", "headroom-window",
		"uninstall"} {
		want = append(want, "lib/headroom/"+name)
	}
	want = append(want, "share/applications/headroom.desktop", "share/headroom/models/config.json")
	for _, size := range []string{"128x128", "16x16", "22x22", "24x24", "256x256", "32x32", "48x48",
		"512x512", "64x64"} {
		want = append(want, "share/icons/hicolor/"+size+"/apps/headroom.png")
	}
	if got := files(t, local); !slices.Equal(got, want) {
		t.Errorf("installed:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if output := run(t, env, filepath.Join(local, "bin/headroom")); output != "headroom\n" {
		t.Errorf("the command printed %q", output)
	}

	entry := filepath.Join(local, "share/applications/headroom.desktop")
	text, err := os.ReadFile(entry)
	if want := "\nExec=\"" + local + "/lib/headroom/headroom-agent\" --open\n"; err != nil ||
		!strings.Contains(string(text), want) {
		t.Errorf("%v, %s\nlacks %s", err, text, want)
	}
	if _, err := exec.LookPath("desktop-file-validate"); err == nil {
		if output := run(t, nil, "desktop-file-validate", entry); output != "" {
			t.Error(output)
		}
	}

	ours, others := filepath.Join(home, ".config/autostart/headroom.desktop"),
		filepath.Join(home, ".config/autostart/other.desktop")
	write(t, ours, "Exec=\""+local+"/lib/headroom/headroom-agent\"\n")
	write(t, others, "Exec=other\n")
	write(t, filepath.Join(home, ".cache/headroom-window/page"), "what WebKit cached")
	output := run(t, env, filepath.Join(local, "lib/headroom/uninstall"))
	left := []string{".config/autostart/other.desktop", ".local/share/headroom/models/config.json"}
	if got := files(t, home); !slices.Equal(got, left) {
		t.Errorf("files after uninstall %q, want %q", got, left)
	}
	for _, folder := range []string{"lib", "share/icons"} {
		if _, err := os.Stat(filepath.Join(local, folder)); err == nil {
			t.Errorf("%s was not removed", folder)
		}
	}
	stays := "\n  " + local + "/share/headroom (imported models, and conversations of Chat)\n"
	if !strings.Contains(output, stays) || strings.Contains(output, home+"/.cache") {
		t.Errorf("output %q, want %q and no folder that does not exist", output, stays)
	}
}

// TestInstallWhileRunning checks that an update reports a running earlier version, and that
// uninstall refuses to remove it.
func TestInstallWhileRunning(t *testing.T) {
	folder := unpacked(t)
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "lib/headroom"), string(program))
	home := t.TempDir()
	env := []string{"HOME=" + home, "XDG_CONFIG_HOME=", "XDG_CACHE_HOME=", "XDG_DATA_HOME="}
	lib := filepath.Join(home, ".local/lib/headroom")
	const notice = "An earlier version is running"
	if output := run(t, env, filepath.Join(folder, "install")); strings.Contains(output, notice) {
		t.Errorf("output %s", output)
	}
	running := exec.Command(filepath.Join(lib, "headroom"), "60")
	if err := running.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = running.Process.Kill()
		_ = running.Wait()
	}()
	if output := run(t, env, filepath.Join(folder, "install")); !strings.Contains(output, notice) {
		t.Errorf("output %s", output)
	}
	refused := exec.Command(filepath.Join(lib, "uninstall"))
	refused.Env = append(os.Environ(), env...)
	if out, err := refused.CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "Headroom is running. Quit it") {
		t.Errorf("%v, output %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(lib, "headroom-agent")); err != nil {
		t.Error(err)
	}
}

func TestInstallRefuses(t *testing.T) {
	folder := unpacked(t)
	script := filepath.Join(folder, "install")
	refused := func(want string, args ...string) {
		t.Helper()
		out, err := exec.Command(script, args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%q: %v, output %q, want %q", args, err, out, want)
		}
	}
	prefix := t.TempDir()
	refused("Choose another", prefix+"/100%")
	refused("Choose another", prefix+`/a"b`)
	write(t, filepath.Join(prefix, "bin/headroom"), "another program")
	refused("is another program", prefix)
	if got := files(t, prefix); !slices.Equal(got, []string{"bin/headroom"}) {
		t.Errorf("refused installations left the files %q", got)
	}
	// Only a part of the archive was unpacked.
	if err := os.Remove(filepath.Join(folder, "lib/headroom-window")); err != nil {
		t.Fatal(err)
	}
	refused("unpack the whole archive", filepath.Join(prefix, "elsewhere"))
	// The uninstall script is not in PREFIX/lib/headroom.
	if err := os.Rename(script, filepath.Join(folder, "uninstall")); err != nil {
		t.Fatal(err)
	}
	script = filepath.Join(folder, "uninstall")
	refused("where install put it")
}

func TestArchiveIsReproducible(t *testing.T) {
	first := unpacked(t) + ".tar.gz"
	second := filepath.Join(t.TempDir(), filepath.Base(first))
	pack(t, filepath.Join(filepath.Dir(first), "programs"), second)
	a, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(second); err != nil || !slices.Equal(a, b) {
		t.Errorf("archives differ: %d and %d bytes (%v)", len(a), len(b), err)
	}
}
