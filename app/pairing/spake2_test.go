package pairing

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// vectors are those of RFC 9382, appendix B.
var vectors = []struct{ a, b, w, x, y, shareA, shareB, k, secret, confirmA, confirmB string }{
	{a: "server", b: "client",
		w: "2ee57912099d31560b3a44b1184b9b4866e904c49d12ac5042c97dca461b1a5f",
		x: "43dd0fd7215bdcb482879fca3220c6a968e66d70b1356cac18bb26c84a78d729",
		y: "dcb60106f276b02606d8ef0a328c02e4b629f84f89786af5befb0bc75b6e66be",
		shareA: "04a56fa807caaa53a4d28dbb9853b9815c61a411118a6fe516a8798434751470f9" +
			"010153ac33d0d5f2047ffdb1a3e42c9b4e6be662766e1eeb4116988ede5f912c",
		shareB: "0406557e482bd03097ad0cbaa5df82115460d951e3451962f1eaf4367a420676d0" +
			"9857ccbc522686c83d1852abfa8ed6e4a1155cf8f1543ceca528afb591a1e0b7",
		k: "0412af7e89717850671913e6b469ace67bd90a4df8ce45c2af19010175e37eed69" +
			"f75897996d539356e2fa6a406d528501f907e04d97515fbe83db277b715d3325",
		secret:   "0e0672dc86f8e45565d338b0540abe69",
		confirmA: "58ad4aa88e0b60d5061eb6b5dd93e80d9c4f00d127c65b3b35b1b5281fee38f0",
		confirmB: "d3e2e547f1ae04f2dbdbf0fc4b79f8ecff2dff314b5d32fe9fcef2fb26dc459b"},
	{a: "", b: "client",
		w: "0548d8729f730589e579b0475a582c1608138ddf7054b73b5381c7e883e2efae",
		x: "403abbe3b1b4b9ba17e3032849759d723939a27a27b9d921c500edde18ed654b",
		y: "903023b6598908936ea7c929bd761af6039577a9c3f9581064187c3049d87065",
		shareA: "04a897b769e681c62ac1c2357319a3d363f610839c4477720d24cbe32f5fd85f44" +
			"fb92ba966578c1b712be6962498834078262caa5b441ecfa9d4a9485720e918a",
		shareB: "04e0f816fd1c35e22065d5556215c097e799390d16661c386e0ecc84593974a61b" +
			"881a8c82327687d0501862970c64565560cb5671f696048050ca66ca5f8cc7fc",
		k: "048f83ec9f6e4f87cc6f9dc740bdc2769725f923364f01c84148c049a39a735ebd" +
			"a82eac03e00112fd6a5710682767cff5361f7e819e53d8d3c3a2922e0d837aa6",
		secret:   "642f05c473c2cd79909f9a841e2f30a7",
		confirmA: "47d29e6666af1b7dd450d571233085d7a9866e4d49d2645e2df975489521232b",
		confirmB: "3313c5cefc361d27fb16847a91c2a73b766ffa90a4839122a9b70a2f6bd1d6df"},
	{a: "server", b: "",
		w: "626e0cdc7b14c9db3e52a0b1b3a768c98e37852d5db30febe0497b14eae8c254",
		x: "07adb3db6bc623d3399726bfdbfd3d15a58ea776ab8a308b00392621291f9633",
		y: "b6a4fc8dbb629d4ba51d6f91ed1532cf87adec98f25dd153a75accafafedec16",
		shareA: "04f88fb71c99bfffaea370966b7eb99cd4be0ff1a7d335caac4211c4afd855e2e1" +
			"5a873b298503ad8ba1d9cbb9a392d2ba309b48bfd7879aefd0f2cea6009763b0",
		shareB: "040c269d6be017dccb15182ac6bfcd9e2a14de019dd587eaf4bdfd353f031101e7" +
			"cca177f8eb362a6e83e7d5e729c0732e1b528879c086f39ba0f31a9661bd34db",
		k: "0445ee233b8ecb51ebd6e7da3f307e88a1616bae2166121221fdc0dadb986afaf3" +
			"ec8a988dc9c626fa3b99f58a7ca7c9b844bb3e8dd9554aafc5b53813504c1cbe",
		secret:   "005184ff460da2ce59062c87733c299c",
		confirmA: "bc9f9bbe99f26d0b2260e6456e05a86196a3307ec6663a18bf6ac825736533b2",
		confirmB: "c2370e1bf813b086dff0d834e74425a06e6390f48f5411900276dcccc5a297ec"},
	{a: "", b: "",
		w: "7bf46c454b4c1b25799527d896508afd5fc62ef4ec59db1efb49113063d70cca",
		x: "8cef65df64bb2d0f83540c53632de911b5b24b3eab6cc74a97609fd659e95473",
		y: "d7a66f64074a84652d8d623a92e20c9675c61cb5b4f6a0063e4648a2fdc02d53",
		shareA: "04a65b367a3f613cf9f0654b1b28a1e3a8a40387956c8ba6063e8658563890f46c" +
			"a1ef6a676598889fc28de2950ab8120b79a5ef1ea4c9f44bc98f585634b46d66",
		shareB: "04589f13218822710d98d8b2123a079041052d9941b9cf88c6617ddb2fcc049466" +
			"2eea8ba6b64692dc318250030c6af045cb738bc81ba35b043c3dcb46adf6f58d",
		k: "041a3c03d51b452537ca2a1fea6110353c6d5ed483c4f0f86f4492ca3f378d40a9" +
			"94b4477f93c64d928edbbcd3e85a7c709b7ea73ee97986ce3d1438e135543772",
		secret:   "fc6374762ba5cf11f4b2caa08b2cd1b9",
		confirmA: "dfb4db8d48ae5a675963ea5e6c19d98d4ea028d8e898dad96ea19a80ade95dca",
		confirmB: "d0f0609d1613138d354f7e95f19fb556bf52d751947241e8c7118df5ef0ae175"},
}

func TestSPAKE2Vectors(t *testing.T) {
	for _, v := range vectors {
		names := identities{a: v.a, b: v.b}
		a, errA := newPartyWith(true, unhex(v.w), unhex(v.x), names)
		b, errB := newPartyWith(false, unhex(v.w), unhex(v.y), names)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		agreedA, errA := a.finish(b.share)
		agreedB, errB := b.finish(a.share)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		for what, pair := range map[string][2]string{
			"share of A":        {hex.EncodeToString(a.share), v.shareA},
			"share of B":        {hex.EncodeToString(b.share), v.shareB},
			"secret of A":       {hex.EncodeToString(agreedA.secret), v.secret},
			"secret of B":       {hex.EncodeToString(agreedB.secret), v.secret},
			"confirmation of A": {hex.EncodeToString(agreedA.mine), v.confirmA},
			"confirmation of B": {hex.EncodeToString(agreedB.mine), v.confirmB},
		} {
			if pair[0] != pair[1] {
				t.Errorf("A=%q B=%q: %s is %s, want %s", v.a, v.b, what, pair[0], pair[1])
			}
		}
		if !bytes.Contains(agreedA.transcript, unhex(v.k)) {
			t.Errorf("A=%q B=%q: the transcript lacks K", v.a, v.b)
		}
		if !agreedA.confirms(agreedB.mine) || !agreedB.confirms(agreedA.mine) {
			t.Errorf("A=%q B=%q: the parties do not confirm each other", v.a, v.b)
		}
	}
}

// TestSPAKE2Differs: another code, name, context or role gives secrets that do not confirm.
func TestSPAKE2Differs(t *testing.T) {
	names := identities{"a", "b", "c"}
	for what, other := range map[string]struct {
		isA   bool
		code  string
		names identities
	}{
		"nothing": {false, "12345678", names},
		"code":    {false, "12345679", names},
		"name a":  {false, "12345678", identities{"x", "b", "c"}},
		"name b":  {false, "12345678", identities{"a", "x", "c"}},
		"context": {false, "12345678", identities{"a", "b", "x"}},
		"role":    {true, "12345678", names},
	} {
		a, err := newParty(true, "12345678", names)
		if err != nil {
			t.Fatal(err)
		}
		b, err := newParty(other.isA, other.code, other.names)
		if err != nil {
			t.Fatal(err)
		}
		agreedA, errA := a.finish(b.share)
		agreedB, errB := b.finish(a.share)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		same := agreedA.confirms(agreedB.mine) || agreedB.confirms(agreedA.mine)
		if same != (what == "nothing") {
			t.Errorf("the parties differ in %s and confirm each other: %v", what, same)
		}
	}
}

func TestSPAKE2InvalidShares(t *testing.T) {
	p, err := newParty(true, "12345678", identities{})
	if err != nil {
		t.Fatal(err)
	}
	mask, err := point(hex.EncodeToString(pointN.Bytes())).ScalarMult(pointN, p.code)
	if err != nil {
		t.Fatal(err)
	}
	for what, share := range map[string][]byte{
		"nothing": nil, "infinity": {0}, "compressed": pointM.BytesCompressed(),
		"off the curve":                append([]byte{4}, make([]byte, 64)...),
		"long":                         append(pointM.Bytes(), 0),
		"w*N, for which K is infinity": mask.Bytes(),
	} {
		if _, err := p.finish(share); err == nil {
			t.Errorf("the share %q was accepted", what)
		}
	}
}

func FuzzShare(f *testing.F) {
	f.Add(pointM.Bytes())
	f.Add([]byte{4})
	f.Fuzz(func(t *testing.T, share []byte) {
		p, err := newParty(false, "12345678", identities{})
		if err != nil {
			t.Fatal(err)
		}
		if a, err := p.finish(share); err == nil && a.confirms(make([]byte, 32)) {
			t.Error("zeros confirm")
		}
	})
}
