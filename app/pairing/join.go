package pairing

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"headroom/app/machines"
	"headroom/engine/problem"
)

// joinTime bounds a pairing. It takes three round trips.
const joinTime = 15 * time.Second

// ParseAddress returns the host and port in what a person has typed: "studio.local",
// "192.168.1.5:11812", "https://studio.local/", "fe80::1%en0". The error is a Problem.
func ParseAddress(typed string) (string, error) {
	bad := func(why string) (string, error) {
		return "", problem.New(problem.BadRequest,
			fmt.Sprintf("%q is not the address of a machine", typed), why,
			fmt.Sprintf("Give one such as studio.local or 192.168.1.5:%d.", Port))
	}
	text := strings.TrimSpace(typed)
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		if !strings.EqualFold(scheme, "https") {
			return bad("the port for machines has https")
		}
		text = rest
	}
	text = strings.TrimSuffix(text, "/")
	text = strings.Replace(text, "%25", "%", 1) // a URL's zone as people write it
	bare := text
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		bare = text[1 : len(text)-1]
	}
	if ip, err := netip.ParseAddr(bare); err == nil {
		return net.JoinHostPort(ip.Unmap().String(), strconv.Itoa(Port)), nil
	}
	if strings.HasPrefix(text, "[") {
		text = strings.Replace(text, "%", "%25", 1)
	}
	u, err := url.Parse("//" + text)
	switch {
	case err != nil || u.Hostname() == "" || u.User != nil || u.Path != "" || u.RawQuery != "" ||
		u.Fragment != "" || strings.ContainsAny(u.Hostname(), " \t"):
		return bad("it is not a host name or an IP address, perhaps with a port")
	}
	port := cmp.Or(u.Port(), strconv.Itoa(Port))
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return bad("ports are 1 to 65535")
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

// Joining are the parameters of Join. Identity, Name, Address and Code are required.
type Joining struct {
	Identity *Identity
	Name     string // of this machine
	Address  string // as ParseAddress returns it
	Code     string // as ParseCode returns it
	// Back lets the other machine use this one's engines, if it asks for that. nil: it does not.
	Back func(name, certificate string) (Back, error)
}

// Back is how the other machine may use this one.
type Back struct {
	Port int    // of this machine for others
	Key  string // for the certificate of the other machine
	// End is called once the other machine has stored the key, or has not. Until then, a key that
	// it has from an earlier pairing must pass.
	End func(stored bool)
}

// Joined is the result of a pairing: a machine whose engines this one may use.
type Joined struct {
	Machine machines.Machine // not stored yet
	Key     string           // the API key that it wants
	Both    bool             // it may use the engines of this machine, too
}

// Join pairs this machine with one that shows a code. The error is a Problem.
func Join(ctx context.Context, j Joining) (Joined, error) {
	ctx, stop := context.WithTimeout(ctx, joinTime)
	defer stop()
	c := &joiner{Joining: j}
	c.client = &http.Client{Transport: &http.Transport{TLSClientConfig: c.config(),
		DialContext: (&net.Dialer{Timeout: joinTime / 2}).DialContext, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}
	defer c.client.CloseIdleConnections()
	return c.join(ctx)
}

// joiner is one try to pair, from the side on which the code is typed.
type joiner struct {
	Joining
	client *http.Client
	server string // the certificate of the other side; "": not seen yet
}

// config returns a TLS configuration that accepts one certificate, whichever it is: the exchange
// shows whether it is that of the machine that shows the code. The transport makes one connection
// at a time, so nothing runs at once here.
func (c *joiner) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13,
		InsecureSkipVerify: true, // the exchange binds the certificate to the code
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &c.Identity.Certificate, nil
		},
		VerifyConnection: func(state tls.ConnectionState) error {
			seen := peerOf(&state)
			if seen == "" || c.server != "" && c.server != seen {
				return machines.ErrCertificate
			}
			c.server = seen
			return nil
		}}
}

func (c *joiner) join(ctx context.Context) (Joined, error) {
	// The first connection shows the certificate that goes into the exchange.
	if err := c.look(ctx); err != nil {
		return Joined{}, c.unreachable(err)
	}
	if equal(c.server, c.Identity.Fingerprint) {
		return Joined{}, problem.New(problem.BadRequest, "This is the same machine",
			c.Address+" has this machine's certificate",
			"Give the address of the other machine. Each needs settings of its own.")
	}
	p, err := newParty(true, c.Code, namesOf(c.Identity.Fingerprint, c.server))
	if err != nil {
		return Joined{}, err
	}
	var hello helloReply
	if err := c.post(ctx, pathPair, helloMessage{protocol, p.share}, &hello); err != nil {
		return Joined{}, err
	}
	a, err := p.finish(hello.Share)
	if err != nil {
		return Joined{}, c.notHeadroom(err)
	}
	var reply confirmReply
	err = c.post(ctx, pathConfirm, confirmMessage{Exchange: hello.Exchange, Confirm: a.mine,
		Sealed: a.seal(fromA, introduction{Name: c.Name})}, &reply)
	if err != nil {
		return Joined{}, err
	}
	var given grant
	if !a.confirms(reply.Confirm) || a.open(fromB, reply.Sealed, &given) != nil ||
		given.Key == "" {
		return Joined{}, problem.New(problem.Unauthorized, "The machines were not paired",
			"the machine at "+c.Address+" does not know the code", "Somebody may be between the "+
				"two machines. Check the address, and try again with a new code.")
	}
	joined := Joined{Machine: Machine(given.Name, c.Address, c.server), Key: given.Key}
	if given.Both && c.Back != nil {
		if err := c.giveBack(ctx, joined); err != nil {
			return joined, problem.Wrap(problem.Internal, err, "Only one direction was paired",
				"Show a code on this machine and type it on the other.")
		}
		joined.Both = true
	}
	return joined, nil
}

// look connects, so that server is known.
func (c *joiner) look(ctx context.Context) error {
	conn, err := (&tls.Dialer{NetDialer: &net.Dialer{Timeout: joinTime / 2}, Config: c.config()}).
		DialContext(ctx, "tcp", c.Address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// giveBack lets the other machine use this one's engines.
func (c *joiner) giveBack(ctx context.Context, joined Joined) error {
	back, err := c.Back(joined.Machine.Name, c.server)
	if err != nil {
		return err
	}
	err = c.postAs(ctx, joined.Key, pathBack, backMessage{back.Port, back.Key}, nil)
	back.End(err == nil)
	return err
}

// post sends a message and reads the answer. The error is a Problem.
func (c *joiner) post(ctx context.Context, path string, message, answer any) error {
	return c.postAs(ctx, "", path, message, answer)
}

func (c *joiner) postAs(ctx context.Context, key, path string, message, answer any) error {
	data, err := json.Marshal(message)
	if err != nil {
		panic("pairing: " + err.Error()) // a bug: the types are ours
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, baseURL(c.Address)+path,
		bytes.NewReader(data))
	if err != nil {
		return c.unreachable(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := c.client.Do(r)
	if err != nil {
		return c.unreachable(err)
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		return c.refused(response)
	}
	if answer == nil {
		return nil
	}
	if err := decode(response.Body, answer); err != nil {
		return c.notHeadroom(err)
	}
	return nil
}

// refused returns the Problem of a refused message.
func (c *joiner) refused(response *http.Response) error {
	var why refusal
	_ = json.NewDecoder(io.LimitReader(response.Body, maxMessage)).Decode(&why)
	switch why.Error {
	case refusedCode:
		return problem.New(problem.Unauthorized, "The code is wrong", "", "Type the code that the "+
			"other machine shows. After three tries it shows none, and needs a new one.")
	case refusedVersion:
		return problem.New(problem.BadRequest, "The machines were not paired",
			"the other machine runs another version of Headroom", "Update both, and try again.")
	case refusedFailed:
		return problem.New(problem.Internal, "The machines were not paired",
			"the other machine could not store the pairing", "Look into its log, and try again.")
	case refusedMalformed:
		return c.notHeadroom(errors.New("it refused the message"))
	}
	return c.noCode()
}

// noCode is the Problem of a machine that shows no code.
func (c *joiner) noCode() error {
	return problem.New(problem.Unauthorized, "The machine at "+c.Address+" shows no code",
		"a code is good for two minutes, one pairing and three tries", "Show a new code there, "+
			"with `headroom pair` or in Settings, Machines, and type it here.")
}

func (c *joiner) notHeadroom(err error) error {
	return problem.Wrap(problem.BadRequest, err, "The machines were not paired",
		"Check that "+c.Address+" is the port for machines of a Headroom of this version.")
}

// unreachable returns the Problem of a connection that failed. An alert means that the other side
// has refused this machine's certificate.
func (c *joiner) unreachable(err error) error {
	var p *problem.Problem
	var failed *net.OpError
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, machines.ErrCertificate):
		return problem.New(problem.Unauthorized, "The machines were not paired",
			"the machine at "+c.Address+" changes its certificate",
			"Somebody may be between the two machines. Check the address.")
	case errors.As(err, &failed) && failed.Op == "remote error":
		return c.noCode()
	case errors.As(err, new(tls.RecordHeaderError)):
		return c.notHeadroom(errors.New("it does not speak TLS"))
	}
	return problem.Wrap(problem.Upstream, err, "The machine at "+c.Address+" does not answer",
		"Check the address, and that it is switched on there to share with other machines.")
}
