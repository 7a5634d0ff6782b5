package blockstore

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
)

// Environment variables of the child process of TestKill.
const (
	killDir  = "HEADROOM_BLOCKSTORE_KILL" // its folder
	killSeed = "HEADROOM_BLOCKSTORE_SEED" // the seed of its first conversation
)

// reportingDisk writes a byte to standard output before each operation, and after a rename.
type reportingDisk struct{ osDisk }

type reportingFile struct{ writeFile }

func (d reportingDisk) Create(path string) (writeFile, error) {
	fmt.Print("c")
	f, err := d.osDisk.Create(path)
	return reportingFile{f}, err
}

func (d reportingDisk) Rename(from, to string) error {
	fmt.Print("r")
	err := d.osDisk.Rename(from, to)
	fmt.Print("R")
	return err
}

func (d reportingDisk) Remove(path string) error {
	fmt.Print("d")
	return d.osDisk.Remove(path)
}

func (f reportingFile) Write(p []byte) (int, error) {
	fmt.Print("w")
	n, err := f.writeFile.Write(p[:len(p)/2])
	if err == nil {
		var more int
		more, err = f.writeFile.Write(p[len(p)/2:])
		n += more
	}
	return n, err
}

func (f reportingFile) Sync() error {
	fmt.Print("s")
	return nil // not needed: the test kills the process, not the machine
}

// conversation returns the tokens of conversation number seed. Conversations share beginnings.
func conversation(seed int) []int32 {
	return join(numbers(1, 400), 400*(seed%3)/2%400, numbers(seed, 700))
}

// TestKillChild is the child process of TestKill.
func TestKillChild(t *testing.T) {
	dir := os.Getenv(killDir)
	if dir == "" {
		t.Skip("the child of TestKill")
	}
	seed, err := strconv.Atoi(os.Getenv(killSeed))
	if err != nil {
		t.Fatal(err)
	}
	o := smallCap(t)
	o.disk = reportingDisk{}
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	for ; ; seed++ {
		tokens := conversation(seed)
		save(t, s.Model(testModel), sequence(tokens, true, 256, 300, len(tokens)))
	}
}

// TestKill sends SIGKILL to a process that uses a store. The test runs its own binary as a child
// process, which saves in a loop and reports every disk operation. After a random number of
// operations, it kills the child. Everything that the store then finds must be intact.
func TestKill(t *testing.T) {
	rounds := 25
	if os.Getenv("HEADROOM_LONG") != "" {
		rounds = 200
	} else if testing.Short() {
		rounds = 5
	}
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(9, 9))
	loaded := 0
	for round := range rounds {
		child := exec.Command(os.Args[0], "-test.run=^TestKillChild$")
		child.Env = append(os.Environ(), killDir+"="+dir, killSeed+"="+strconv.Itoa(100*round))
		out, err := child.StdoutPipe()
		if err == nil {
			err = child.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		operations := bufio.NewReader(out)
		for range 1 + random.IntN(200) {
			if b, err := operations.ReadByte(); err != nil {
				t.Fatalf("the child ended by itself: %c, %v", b, err)
			}
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := child.Wait(); err == nil ||
			!child.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
			t.Fatalf("the child was not killed: %v", err)
		}
		loaded += loadAll(t, dir, 100*round)
	}
	if loaded < rounds {
		t.Errorf("only %d conversations were found in %d rounds: the child saved too few", loaded,
			rounds)
	}
}

// loadAll opens the folder of a killed process, checks it, and loads all that is stored of 60
// conversations. It returns the number of conversations that were complete.
func loadAll(t *testing.T, dir string, seed int) (loaded int) {
	t.Helper()
	s, err := Open(dir, smallCap(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	v := s.Model(testModel)
	s.swept.Wait() // the sweep repairs the folder
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	for i := seed; i < seed+60; i++ {
		tokens := conversation(i)
		for _, recurrent := range []bool{false, true} {
			p := v.Find(tokens, len(tokens), 0, recurrent)
			if err := load(v, tokens, p); err != nil {
				t.Fatalf("%d tokens of conversation %d: %v", p.Tokens, i, err)
			}
			if p.Tokens == len(tokens) {
				loaded++
			}
		}
	}
	return loaded
}
