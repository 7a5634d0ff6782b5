package check

import (
	"strings"
	"testing"
)

const (
	temporary = "it removes a temporary folder that it has just created under a random name"
	chosen    = "the user names the file to write"
)

// deletions are the Go files of the product that remove or overwrite files.
var deletions = map[string]deletes{
	"app/update/place.go":  {4, []string{"TestForeignStage", "TestUpdate"}, ""},
	"app/update/fetch.go":  {1, []string{"TestForeignStage"}, ""},
	"app/agents/launch.go": {3, []string{"TestForeignFiles", "TestLaunch"}, ""},
	"app/agents/record.go": {1, []string{"TestForeignFiles", "TestKeys"}, ""},
	"app/agents/store.go":  {2, []string{"TestForeignFiles", "TestUndoGivesTheSameBytes"}, ""},
	"app/batch/files.go": {1, []string{"TestForeignOutputs", "TestResumes"},
		"it cuts off a line of answers, in a file whose other lines are answers"},
	"app/batches/batches.go": {2, []string{"TestForeign"}, ""},
	"app/batches/content.go": {1, []string{"TestForeign", "TestContent"}, ""},
	"app/chats/erase.go":     {2, []string{"TestErase", "TestDamagedHeader"}, ""},
	"app/service/erase.go":   {1, []string{"TestSetAside", "TestDeleteHere"}, ""},
	"app/chats/migrate.go":   {1, []string{"TestOtherFiles", "TestMigration"}, ""},
	"app/chats/sealed.go":    {2, []string{"TestOtherFiles", "TestForgotten"}, ""},
	"app/vault/vault.go": {2, []string{"TestKeyInAFile", "TestDestroyTemporary"},
		"the user asks to destroy the key, whose file no other program writes"},
	"app/cache/folders.go": {2, []string{"TestFolders"}, ""},
	"app/cmd/headroom-agent/instance.go": {2, []string{"TestForeignLockFile"},
		"it writes its address only into the file that claim has locked and emptied"},
	"app/commands/benchcache.go": {1, nil, temporary},
	"app/commands/benchtable.go": {2, nil, temporary + "; " + chosen},
	"app/commands/parity.go":     {1, nil, temporary},
	"app/commands/reportfile.go": {2, []string{"TestSelftestInterrupted"}, chosen},
	"app/control/running.go":     {4, []string{"TestForeignFilesAmongRunning"}, ""},
	"app/disk/disk_darwin.go":    {2, []string{"TestRename", "TestExchange"}, ""},
	"app/disk/disk_linux.go":     {3, []string{"TestClone", "TestRename", "TestExchange"}, ""},
	"app/disk/disk_unix.go":      {1, []string{"TestRename"}, ""},
	"app/disk/write.go":          {1, []string{"TestForeignFilesBesideTemporary"}, ""},
	"app/hub/created.go":         {7, []string{"TestForeignFilesInCache"}, ""},
	"app/hub/download.go":        {1, []string{"TestForeignFilesInCache"}, ""},
	"app/hub/file.go":            {3, []string{"TestForeignFilesInCache", "TestDamage"}, ""},
	"app/hub/layout.go":          {2, []string{"TestForeignFilesInCache"}, ""},
	"app/hub/token.go":           {1, []string{"TestForeignTokenFile"}, ""},
	"app/importer/journal.go":    {4, []string{"TestForeignFilesInCopy"}, ""},
	"app/importer/run.go": {2, []string{"TestMoveKeepsChangedOriginal", "TestCopyMoveLink"},
		""},
	"app/library/trash.go": {1, []string{"TestForeignFilesInTrash"}, ""},
	"app/login/login.go":   {1, []string{"TestForeignItem"}, ""},
	"app/selftest/demo.go": {1, nil, temporary},
	"app/selftest/gate.go": {1, []string{"TestForeignOutcome"}, ""},
	"app/train/adapter.go": {4, []string{"TestLatest", "TestForeignCheckpoints",
		"TestDiscardedTraining"}, ""},
	"app/train/bundled.go":        {1, []string{"TestForeignFilesInEnvironment"}, ""},
	"app/train/split.go":          {2, []string{"TestForeignDataFolders"}, ""},
	"app/train/environment.go":    {7, []string{"TestForeignFilesInEnvironment"}, ""},
	"app/worker/check.go":         {2, nil, temporary},
	"engine/blockstore/budget.go": {1, []string{"TestFilesOfOthersStay"}, ""},
	"engine/blockstore/disk.go":   {2, []string{"TestFilesOfOthersStay"}, ""},
	"engine/blockstore/index.go":  {2, []string{"TestOpenKilled"}, ""},
	"engine/blockstore/mark.go":   {2, []string{"TestLinksOfOthersStay", "TestMove"}, ""},
	"engine/blockstore/move.go": {6, []string{"TestFilesOfOthersStay", "TestMove",
		"TestLinksInPlaceOfEntries", "TestEraseKilled"}, ""},
	"engine/blockstore/ours.go": {4, []string{"TestFilesOfOthersStay", "TestFoldersOfOthersStay",
		"TestLinksOfOthersStay", "TestIndexOfAnother", "TestEraseSetAside"}, ""},
	"engine/blockstore/pin.go":    {1, []string{"TestFilesOfOthersStay"}, ""},
	"engine/blockstore/sealed.go": {3, []string{"TestKeysLost", "TestEncryptionOff"}, ""},
	"engine/blockstore/sweep.go":  {1, []string{"TestFilesOfOthersStay"}, ""},
	"engine/blockstore/write.go":  {3, []string{"TestFilesOfOthersStay"}, ""},
	"engine/convert/discard.go":   {2, []string{"TestDiscard"}, ""},
	"engine/convert/files.go": {2, []string{"TestRun", "TestForeignFiles",
		"TestCalibrateFamilies"}, ""},
	"engine/convert/resume.go":    {1, []string{"TestRun", "TestForeignFiles"}, ""},
	"engine/convert/work.go":      {1, []string{"TestResume", "TestForeignFiles"}, ""},
	"engine/promptfile/write.go":  {2, []string{"TestForeignFiles"}, ""},
	"engine/seal/destroy.go":      {1, []string{"TestDestroyFile"}, ""},
	"engine/checkpoint/random.go": {2, nil, "it writes to a temporary folder of its caller"},
	"main.go":                     {1, nil, chosen},
	"metal/clang/cache.go":        {6, []string{"TestForeignFilesInCache"}, ""},
	"metal/clang/clang.go":        {3, nil, "it writes to a temporary folder of its caller"},
}

// isTool reports whether a package is no part of the product.
func isTool(pkg string) bool {
	return strings.HasPrefix(pkg, "build") || helper(pkg) && pkg != "app/selftest"
}

func TestDeletions(t *testing.T) {
	report(t, checkDeletions(repository(), deletions, isTool))

	one := map[string]deletes{"a/a.go": {1, []string{"TestForeign"}, ""}}
	with := func(a, test string) map[string]string {
		return map[string]string{"a/a.go": a, "a/a_test.go": test, "build/b/b.go": "os.Remove(p)"}
	}
	const tested = "func TestForeign(t *testing.T) { os.RemoveAll(x) }"
	for _, c := range []struct {
		name, a, test, want string
	}{
		{"known", "err := os.Remove(path)", tested, ""},
		{"another", "os.Remove(a)\nroot.RemoveAll(b)", tested, "a/a.go: 2 calls"},
		{"truncation", "os.Remove(a); os.OpenFile(b, os.O_TRUNC, 0)", tested, "2 calls"},
		{"a disk", "os.Remove(a); files.Rename(b, c); m.files().Remove(d)", tested, "3 calls"},
		{"comments", "os.Remove(a) // not os.RemoveAll(b)", tested, ""},
		{"gone", "return", tested, "Correct the table"},
		{"no test", "os.Remove(a)", "func TestOther(", "no such test"},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect(t, checkDeletions(treeOf(with(c.a, c.test)), one, func(pkg string) bool {
				return strings.HasPrefix(pkg, "build")
			}), c.want)
		})
	}
	files := treeOf(map[string]string{"b/b.go": "os.Rename(a, b)"})
	expect(t, checkDeletions(files, nil, helper), "b/b.go: 1 calls remove")
	expect(t, checkDeletions(files, map[string]deletes{"b/b.go": {calls: 1}}, helper),
		"neither a test nor a reason")
}
