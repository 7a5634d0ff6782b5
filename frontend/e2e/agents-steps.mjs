// The end-to-end steps of the Agents page. The server has a home folder of its own, so its agents
// have no configuration unless a step puts one there.
import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { goTo, ready, until } from './helpers.mjs';
import { lookEverywhere } from './looks.mjs';

const before = '# mine\r\nmodel = "gpt" # the best\r\n\r\n[tui]\r\ntheme = "dark"\r\n';

const row = (page, id) => page.getByTestId(`agent-${id}`);
const state = (page, id) => row(page, id).getByTestId('agent-state').innerText();

export const agentsSteps = [
  [
    'Agents shows what it writes, writes it, and gives back the same bytes',
    async ({ page, server, shot }) => {
      const { home } = server;
      if (!home) return 'the server has no home folder of its own';
      const file = join(home, '.codex/config.toml');
      await mkdir(join(home, '.codex'));
      await writeFile(file, before);
      await goTo(page, 'Overview');
      await ready(page);
      await goTo(page, 'Agents');
      await until('Codex is not set up', async () => (await state(page, 'codex')) === 'Not set up');
      await lookEverywhere(page, shot, 'agents');

      // By keyboard alone.
      await page.getByRole('button', { name: 'Set Up… Codex' }).focus();
      await page.keyboard.press('Enter');
      const dialog = page.getByRole('dialog');
      const lines = dialog.getByTestId('difference');
      await lines.waitFor();
      const address = new URL(server.url).origin;
      const added = await lines.locator('[data-kind=added] code').allInnerTexts();
      assert.ok(added.includes(`base_url = "${address}/v1"`), added.join('\n'));
      assert.deepEqual(await lines.locator('[data-kind=removed] code').allInnerTexts(), [
        'model = "gpt" # the best',
      ]);
      await lookEverywhere(page, shot, 'agents-sheet');
      assert.equal(await readFile(file, 'utf8'), before, 'written before it was asked for');
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'detached' });
      assert.equal(await readFile(file, 'utf8'), before, 'written after Escape');

      await page.getByRole('button', { name: 'Set Up… Codex' }).click();
      await dialog.getByRole('button', { name: 'Write' }).click();
      await until('Codex is set up', async () => (await state(page, 'codex')) === 'Set up');
      const written = await readFile(file, 'utf8');
      assert.ok(written.includes(`base_url = "${address}/v1"`), written);
      assert.ok(written.includes('# the best'), written);
      await shot('agents-written');

      await page.getByRole('button', { name: 'Undo… Codex' }).click();
      await dialog.getByText('byte for byte').waitFor();
      await dialog.getByRole('button', { name: 'Undo', exact: true }).click();
      await until('it is undone', async () => (await state(page, 'codex')) === 'Not set up');
      assert.equal(await readFile(file, 'utf8'), before);
    },
  ],

  [
    'Agents writes no file that changed after it was shown',
    async ({ page, server }) => {
      const { home } = server;
      if (!home) return 'the server has no home folder of its own';
      const file = join(home, '.claude/settings.json');
      await goTo(page, 'Agents');
      await page.getByRole('button', { name: 'Set Up… Claude Code' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByTestId('difference').waitFor();
      await mkdir(join(home, '.claude'));
      await writeFile(file, '{"theme": "dark"}');
      await dialog.getByRole('button', { name: 'Write' }).click();
      await dialog.getByText('has changed since it was shown').waitFor();
      assert.equal(await readFile(file, 'utf8'), '{"theme": "dark"}');
      await dialog.getByRole('button', { name: 'Look Again' }).click();
      await dialog.getByText('This changes ~/.claude/settings.json').waitFor();
      await dialog.getByRole('button', { name: 'Cancel' }).click();
    },
  ],

  [
    'Agents has steps for Xcode, and a command to launch Claude Code',
    async ({ page, server, shot }) => {
      await goTo(page, 'Agents');
      await page.getByRole('button', { name: 'Show Steps… Xcode' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByText(server.isFake ? '11811' : new URL(server.url).port).waitFor();
      await dialog.getByRole('button', { name: 'Done' }).click();
      await page.getByRole('button', { name: 'Launch in Terminal… Claude Code' }).click();
      await dialog.getByText('BASE_URL=http://127.0.0.1').waitFor();
      await lookEverywhere(page, shot, 'agents-launch');
      await dialog.getByRole('button', { name: 'Cancel' }).click();
    },
  ],
];
