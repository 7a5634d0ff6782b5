// The end-to-end steps of the card of machines, on the Settings page, with a second Headroom.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { goTo, until } from './helpers.mjs';
import { lookEverywhere } from './looks.mjs';
import { startBinary } from './server.mjs';

const card = (page) => page.getByRole('region', { name: 'Machines', exact: true });

/** Sends a request to the control API of a server. */
async function control(server, method, path, body) {
  const [address, fragment] = server.url.split('#');
  const response = await fetch(`${address}control/${path}`, {
    method,
    headers: { 'X-Headroom-Token': new URLSearchParams(fragment).get('token') },
    body: body && JSON.stringify(body),
  });
  const document = await response.json();
  assert.equal(response.status, 200, JSON.stringify(document));
  return document;
}

/** Runs the program with a home folder of its own, and types `typed`. */
async function run(home, args, typed) {
  const env = { ...process.env, HOME: home };
  for (const name of ['CONFIG', 'CACHE', 'DATA']) env[`XDG_${name}_HOME`] = join(home, name);
  const child = spawn(process.env.HEADROOM_BIN, args, { env });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (said += text));
  child.stdin.end(typed);
  const code = await new Promise((resolve) => child.on('exit', resolve));
  return { code, said };
}

export const machinesSteps = [
  [
    'a second Headroom is paired by the code on the page, and removed',
    async ({ page, server, shot }) => {
      if (!server.home || !process.env.HEADROOM_BIN) return 'the server is a fake';
      await goTo(page, 'Settings');
      const machines = card(page);
      assert.equal((await control(server, 'GET', 'pairing')).open, false, 'off by default');
      await machines.getByRole('switch', { name: 'Share this computer' }).click();
      await machines.getByText('Machines that you pair can use this one').waitFor();
      await machines.getByRole('button', { name: 'Show a code' }).click();
      // not the field of the form below, which has the same label
      const shown = machines.getByTestId('machine-code').getByLabel('Code', { exact: true });
      const code = await shown.innerText();
      assert.match(code, /^\d{4} \d{4}$/);
      await machines.getByText(/It expires in (2 min|1 min \d+ s)\./).waitFor();
      await shot('machines-code');

      const home = await mkdtemp(join(tmpdir(), 'headroom-e2e-other-'));
      const { port } = await control(server, 'GET', 'pairing');
      const address = `127.0.0.1:${port}`;
      const wrong = await run(
        home,
        ['pair', address],
        `${(Number(code[0]) + 1) % 10}${code.slice(1)}\n`,
      );
      assert.equal(wrong.code, 1, wrong.said);
      await machines.getByText('Somebody typed a wrong code. 2 tries are left.').waitFor();
      const right = await run(home, ['pair', address], `${code}\n`);
      assert.equal(right.code, 0, right.said);
      await machines.getByText(/ was paired\.$/).waitFor();
      const users = machines.getByRole('list', { name: 'May use this computer' });
      await until('the other one is listed', async () => (await users.locator('li').count()) === 1);
      await lookEverywhere(page, shot, 'machines-paired');
      await users.getByRole('button', { name: /^Remove… / }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
      await machines.getByText('No machine was paired with this one yet.').waitFor();
      await rm(home, { recursive: true, force: true });
    },
  ],
  [
    'the page pairs with a Headroom that shows a code',
    async ({ page, server, shot }) => {
      if (!server.home || !process.env.HEADROOM_BIN) return 'the server is a fake';
      const other = await startBinary(process.env.HEADROOM_BIN, async () => async () => {});
      try {
        await control(other, 'PUT', 'pairing', { on: true });
        const { code, port } = await control(other, 'POST', 'pairing/code', {});
        await goTo(page, 'Settings');
        const machines = card(page);
        await machines.getByLabel('Address').fill(`127.0.0.1:${port}`);
        await machines.getByRole('textbox', { name: 'Code' }).fill('1234');
        await machines.getByRole('button', { name: 'Pair', exact: true }).click();
        await machines.getByText('The code is not valid').waitFor();
        await shot('machines-wrong-code');
        await machines.getByRole('textbox', { name: 'Code' }).fill(code.code);
        await page.keyboard.press('Enter');
        const used = machines.getByRole('list', { name: 'This computer may use' });
        await until('it can be used', async () => (await used.locator('li').count()) === 1);
        assert.match(await used.innerText(), new RegExp(`127\\.0\\.0\\.1:${port}`));
        assert.equal((await control(other, 'GET', 'pairing')).users.length, 1);
        await used.getByRole('button', { name: /^Remove… / }).click();
        await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
        await machines.getByText('No other machine can be used from this one yet.').waitFor();
        await machines.getByRole('switch', { name: 'Share this computer' }).click();
        await until(
          'the port is closed',
          async () => !(await control(server, 'GET', 'pairing')).open,
        );
      } finally {
        await other.kill();
      }
    },
  ],
];
