package hub

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"headroom/app/hub/hubtest"
)

// reference uploads a folder with huggingface_hub: it makes the repository, and uploads twice.
const reference = `
import sys
from huggingface_hub import HfApi
import huggingface_hub
api = HfApi(endpoint=sys.argv[1], token=sys.argv[2])
url = api.create_repo("org/name", private=True, exist_ok=True, repo_type="model")
for _ in range(2):
    print(api.upload_folder(folder_path=sys.argv[3], repo_id="org/name", ignore_patterns=[".*"]))
print("huggingface_hub", huggingface_hub.__version__)
`

// TestReferenceUploads shows that the tests' hub is true to the protocol: huggingface_hub itself
// uploads to it, and nothing that it sends is unknown there. Then Headroom finds all files there
// already. build/oracle/uploads/run makes the Python environment that HEADROOM_UPLOADS_PYTHON
// names.
func TestReferenceUploads(t *testing.T) {
	python := os.Getenv("HEADROOM_UPLOADS_PYTHON")
	if python == "" {
		t.Skip("HEADROOM_UPLOADS_PYTHON is not set; build/oracle/uploads/run sets it")
	}
	u := newUploadTest(t)
	home := t.TempDir()
	command := exec.Command(python, "-c", reference, u.hub.URL, hubtest.Token, u.dir)
	command.Env = append(os.Environ(), "HF_HUB_DISABLE_XET=1", "HF_HUB_DISABLE_TELEMETRY=1",
		"HF_HOME="+filepath.Join(home, "hf"), "HF_HUB_DISABLE_PROGRESS_BARS=1")
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	t.Logf("%s", out.String())
	if err != nil {
		t.Fatal(err)
	}
	u.expectContent()
	if !u.hub.Repositories["org/name"].Private || u.hub.Received() != 1511 {
		t.Error("the repository or the bytes in the storage are not as expected")
	}
	for _, r := range u.hub.Requests() {
		t.Log(r)
	}
	_, done := u.mustRun()
	if done.Address != "" {
		t.Errorf("Headroom has sent %+v", done)
	}
}
