package route

// Looking at a machine before it is added, and when somebody asks what is wrong with it.

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"headroom/app/machines"
	"headroom/engine/problem"
)

// Found is what Probe has found.
type Found struct {
	Info
	ID   string // of the process that answers; "": unknown
	Kind machines.Kind
	Took time.Duration // of the answer
}

// Probe asks a machine for its state. If its Kind is "", Probe finds out what it is. own is
// Options.Own. The error is a Problem.
func Probe(ctx context.Context, m machines.Machine, secret string,
	own func() (*tls.Certificate, error)) (f Found, err error) {
	if m.Certificate, err = machines.CleanCertificate(m.Certificate); err != nil {
		return f, err
	}
	kinds := []machines.Kind{m.Kind}
	if m.Kind == "" {
		kinds = []machines.Kind{machines.Headroom, machines.OpenAI}
	}
	for _, kind := range kinds {
		one := m
		one.Kind = kind
		if one.URL, err = machines.CleanURL(kind, m.URL); err != nil {
			if len(kinds) > 1 && kind == machines.Headroom {
				continue // an address with a path is another server's
			}
			return f, err
		}
		f, err = probe(ctx, one, secret, own, len(kinds) > 1)
		if !errors.Is(err, errNotFound) {
			break
		}
	}
	if err != nil {
		return f, unusable(m.URL, err)
	}
	return f, nil
}

// probe asks a machine of a known kind. strict means that a Headroom must say that it is one.
func probe(ctx context.Context, m machines.Machine, secret string,
	own func() (*tls.Certificate, error), strict bool) (f Found, err error) {
	one := newMachine(m, func() (string, error) { return secret, nil }, own)
	defer one.client.CloseIdleConnections()
	began := time.Now()
	err = errNotFound
	if m.Kind == machines.Headroom {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		var d description
		err = one.get(ctx, "/api/machine", &d)
		f.Info, f.ID = d.Info, d.ID
	}
	if errors.Is(err, errNotFound) && !(strict && m.Kind == machines.Headroom) {
		f.Info, err = one.ask(ctx)
	}
	f.Kind, f.Took = m.Kind, time.Since(began)
	return f, err
}

// CheckNew returns a Problem if the machine that was found is this process, or one of the stored
// machines by another address. It asks all of those that are Headrooms. own is Options.Own.
func CheckNew(ctx context.Context, found Found, stored *machines.Store,
	own func() (*tls.Certificate, error)) error {
	if found.ID == "" {
		return nil
	}
	if found.ID == processID {
		return ErrSelf
	}
	list := stored.List()
	ids := make([]string, len(list))
	var asking sync.WaitGroup
	for i, m := range list {
		if m.Kind != machines.Headroom {
			continue
		}
		asking.Go(func() {
			if secret, err := stored.Secret(m); err == nil {
				f, _ := Probe(ctx, m, secret, own) // one that does not answer cannot be compared
				ids[i] = f.ID
			}
		})
	}
	asking.Wait()
	if i := slices.Index(ids, found.ID); i >= 0 {
		return problem.New(problem.Exists, "This machine was added already",
			fmt.Sprintf("it is %s, at %s", list[i].Name, list[i].URL),
			"Change it with `headroom machines set`, or remove it first.")
	}
	return nil
}

// ErrSelf is the Problem of a machine that would be added to itself.
var ErrSelf = problem.New(problem.BadRequest, "This is the same machine",
	"a server with these settings answers at the address",
	"Give the address of the other machine. Each needs settings of its own.")

// unusable returns the Problem of a machine that cannot be asked.
func unusable(address string, err error) error {
	fix := "Check the address, that the machine is awake, and that its server is running."
	var wrong *tls.CertificateVerificationError
	switch {
	case errors.Is(err, errRefusesKey) || errors.Is(err, errWantsKey):
		fix = "Give the API key that the server wants with --api-key-file or HEADROOM_MACHINE_KEY."
	case errors.Is(err, errUnpaired) || errors.Is(err, machines.ErrCertificate):
		fix = "Pair the two again: show a code there with `headroom pair`, and type it here."
	case errors.Is(err, errNotFound):
		fix = "Give the address of a Headroom, or the base URL of a server with OpenAI's API."
	case errors.As(err, &wrong) && len(wrong.UnverifiedCertificates) > 0:
		sum := sha256.Sum256(wrong.UnverifiedCertificates[0].Raw)
		fix = "If the certificate is the machine's, add it with --certificate " +
			hex.EncodeToString(sum[:]) + ". Compare this number with one that the machine shows."
	}
	return problem.Wrap(problem.Upstream, err, fmt.Sprintf("%s cannot be used", address), fix)
}
