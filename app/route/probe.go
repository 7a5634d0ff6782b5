package route

// Looking at a machine before it is added, and when somebody asks what is wrong with it.

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"headroom/app/machines"
	"headroom/engine/problem"
)

// Found is what Probe has found.
type Found struct {
	Info
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
	if strict && m.Kind == machines.Headroom {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		err = one.get(ctx, "/api/machine", &f.Info)
	} else {
		f.Info, err = one.ask(ctx)
	}
	f.Kind, f.Took = m.Kind, time.Since(began)
	return f, err
}

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
