// The end-to-end steps of help, shortcuts, the bug report and updates.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { accessibilityFaults } from './axe.mjs';
import { goTo, until } from './helpers.mjs';

/**
 * Checks the page with axe, and takes a picture, in both themes. No text leaves the page or the
 * sheet at any width; 550 pixels is a zoom of 200 %.
 */
async function seen(page, shot, name) {
  for (const width of [390, 550, 800, 1600, 1100]) {
    await page.setViewportSize({ width, height: 720 });
    const over = await page.evaluate(() =>
      [
        document.scrollingElement,
        ...document.querySelectorAll('dialog[open], [data-testid=update]'),
      ]
        .filter((element) => element.scrollWidth > element.clientWidth)
        .map((element) => `${element.tagName} ${element.scrollWidth} > ${element.clientWidth}`),
    );
    assert.deepEqual(over, [], `${name} at ${width} pixels`);
    if (width === 390) await shot(`${name}-390`);
  }
  for (const colorScheme of ['dark', 'light']) {
    await page.emulateMedia({ colorScheme });
    assert.deepEqual(await accessibilityFaults(page), [], `${name}, ${colorScheme}`);
    await shot(`${name}-${colorScheme}`);
  }
}

export const systemSteps = [
  [
    'Cmd-/ shows the shortcuts, and the palette finds help, which says what applies now',
    async ({ page, shot }) => {
      await page.keyboard.press('Control+/');
      const shortcuts = page.getByRole('dialog', { name: 'Keyboard shortcuts' });
      await shortcuts.getByText('Search pages, models and actions').waitFor();
      await seen(page, shot, 'shortcuts');
      await page.keyboard.press('Escape');
      await shortcuts.waitFor({ state: 'detached' });
      await page.keyboard.press('Control+k');
      await page.getByRole('combobox', { name: 'Command' }).fill('why slow');
      await page.keyboard.press('Enter');
      const help = page.getByRole('dialog', { name: 'Help' });
      await help.getByRole('heading', { name: 'What is the wired limit?' }).waitFor();
      assert.match(await help.innerText(), /The model runs on the processor|Nothing slows/);
      await seen(page, shot, 'help');
      await help.getByRole('button', { name: 'Open Memory' }).click();
      await page.getByTestId('pressure-line').waitFor();
    },
  ],

  [
    'a bug report is shown before it is saved, without secrets, and parts can be left out',
    async ({ page, server, shot }) => {
      await goTo(page, 'Settings');
      await page.getByRole('button', { name: 'Prepare report…' }).click();
      const sheet = page.getByRole('dialog', { name: 'Bug report' });
      await until('five parts', async () => (await sheet.getByTestId('report-part').count()) === 5);
      await sheet.getByText('Show', { exact: true }).first().click();
      await sheet.getByText(/System: /).waitFor();
      await seen(page, shot, 'report');
      await sheet.getByRole('checkbox', { name: 'Log' }).uncheck();
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        sheet.getByRole('button', { name: 'Save…' }).click(),
      ]);
      const text = await readFile(await download.path(), 'utf8');
      assert.match(text, /## This computer[\s\S]*## Settings[\s\S]*## Self-test/);
      assert.doesNotMatch(text, /## Log/);
      const token = new URLSearchParams(server.url.split('#')[1]).get('token');
      assert.ok(!text.includes(token), 'the report has the token');
      await page.keyboard.press('Escape');
      await sheet.waitFor({ state: 'detached' });
    },
  ],

  [
    'an update: a broken signature is refused, a good one is applied at quit and taken back',
    async ({ context, server }) => {
      if (server.isFake || process.platform !== 'linux') return 'this needs an installation';
      const world = await installation();
      try {
        let running = await world.start();
        let page = await context.newPage();
        const open = async () => {
          await page.goto(running.url);
          await goTo(page, 'Settings');
          return page.getByTestId('update');
        };
        await page.goto(running.url);
        await page.getByRole('dialog').waitFor();
        await page.keyboard.press('Escape');
        let update = await open();
        await update.getByText('Enter the address of a feed').waitFor();
        await page.getByLabel('Update feed').fill('http://example.org/feed.json');
        await page.keyboard.press('Tab');
        await page.getByText('does not begin with https').waitFor();
        await page.getByLabel('Update feed').fill(world.feed);
        await page.keyboard.press('Tab');
        await page.getByLabel('Key of the feed').fill(world.key);
        await page.keyboard.press('Tab');
        await update.getByText('has not looked for updates yet').waitFor();

        world.publish('0.2.0', { broken: true });
        await update.getByRole('button', { name: 'Check now' }).click();
        await page.getByText('The signature of the update feed is not valid').waitFor();
        await page.getByText('was changed after it was signed').waitFor();
        await page.screenshot({ path: `${world.pictures}/update-refused.png` });
        assert.equal(await update.getByRole('button', { name: 'Download' }).count(), 0);

        world.publish('0.2.0');
        await update.getByRole('button', { name: 'Check now' }).click();
        await update.getByText('Version 0.2.0 is available').waitFor();
        await update.getByRole('button', { name: 'Download' }).click();
        await update.getByText('Version 0.2.0 is installed when Headroom quits').waitFor();
        await seen(page, (name) => shotOf(page, world, name), 'update-ready');
        await running.quit();
        assert.match(await world.program(), /^#!\/bin\/sh/, 'the update was not applied');

        running = await world.start();
        update = await open();
        await update.getByRole('button', { name: /^Restore version / }).click();
        await update.getByText(/is restored when Headroom quits/).waitFor();
        await running.quit();
        assert.doesNotMatch(await world.program(), /^#!/, 'the version before was not restored');
        for (const { headers, url } of world.requests) {
          assert.equal(headers['user-agent'], 'Headroom');
          assert.doesNotMatch(url, /\?/);
        }
        await page.close();
      } finally {
        await world.end();
      }
    },
  ],
];

const shotOf = (page, world, name) => page.screenshot({ path: `${world.pictures}/${name}.png` });

/**
 * A copy of the program, installed as by build/linux/install, and a publisher with a feed. The
 * version that it publishes is a script that runs the same program.
 */
async function installation() {
  const home = await mkdtemp(join(tmpdir(), 'headroom-e2e-update-'));
  const lib = join(home, 'lib/headroom');
  const binary =
    process.env.HEADROOM_BIN || fileURLToPath(new URL('../../bin/headroom', import.meta.url));
  await mkdir(lib, { recursive: true });
  await copyFile(binary, join(lib, 'headroom'));
  for (const name of ['headroom-agent', 'headroom-window', 'uninstall'])
    await writeFile(join(lib, name), '');

  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const id = Buffer.from('01234567');
  const raw = publicKey.export({ format: 'der', type: 'spki' }).subarray(-32);
  const key = Buffer.concat([Buffer.from('Ed'), id, raw]).toString('base64');
  const signature = (message) => {
    const first = sign(null, message, privateKey);
    const comment = 'timestamp:1';
    const second = sign(null, Buffer.concat([first, Buffer.from(comment)]), privateKey);
    const line = Buffer.concat([Buffer.from('Ed'), id, first]).toString('base64');
    return ['untrusted comment: x', line, `trusted comment: ${comment}`, second.toString('base64')]
      .concat('')
      .join('\n');
  };

  const files = {};
  const requests = [];
  const publisher = createServer((request, response) => {
    requests.push({ headers: request.headers, url: request.url });
    const data = files[request.url];
    response.writeHead(data ? 200 : 404);
    response.end(data);
  });
  await new Promise((resolve) => publisher.listen(0, '127.0.0.1', resolve));
  const address = `http://127.0.0.1:${publisher.address().port}`;
  const next = join(home, 'next/headroom');
  await mkdir(next, { recursive: true });
  await copyFile(binary, join(next, 'headroom-real'));
  for (const name of ['headroom-agent', 'headroom-window', 'uninstall'])
    await writeFile(join(next, name), '');

  const publish = (version, { broken = false } = {}) => {
    execFileSync(
      'sh',
      ['-c', `cat > headroom && chmod 755 headroom && tar -czf ../new.tar.gz -C .. headroom`],
      { cwd: next, input: script(version) },
    );
    files['/new.tar.gz'] = execFileSync('cat', [join(home, 'next/new.tar.gz')], {
      maxBuffer: 1 << 30,
    });
    const feed = {
      version,
      notes: 'Faster prefill.',
      files: [
        {
          os: 'linux',
          arch: process.arch === 'arm64' ? 'arm64' : 'amd64',
          url: 'new.tar.gz',
          bytes: files['/new.tar.gz'].length,
          sha256: createHash('sha256').update(files['/new.tar.gz']).digest('hex'),
          folder: 'headroom',
        },
      ],
    };
    const text = Buffer.from(JSON.stringify(feed));
    files['/feed.json'] = text;
    files['/feed.json.minisig'] = signature(broken ? Buffer.from(`${text} `) : text);
  };

  const env = {
    ...process.env,
    HOME: home,
    XDG_CONFIG_HOME: join(home, 'config'),
    XDG_CACHE_HOME: join(home, 'cache'),
    XDG_DATA_HOME: join(home, 'data'),
  };
  let child = null;
  const quit = async (signal = 'SIGTERM') => {
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.on('exit', resolve));
    child.kill(signal);
    await ended;
  };
  const start = async () => {
    child = spawn(join(lib, 'headroom'), ['serve', '--host', '127.0.0.1', '--port', '0'], {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const url = await new Promise((resolve, reject) => {
      child.on('exit', (code) => reject(new Error(`the server ended with ${code}`)));
      for (const stream of [child.stdout, child.stderr])
        createInterface({ input: stream }).on('line', (line) => {
          const found = /web UI:\s+(http\S+)/i.exec(line);
          if (found) resolve(found[1]);
        });
    });
    const token = (await readFile(join(home, 'config/headroom/token'), 'utf8')).trim();
    return { url: `${url}#token=${token}`, quit };
  };
  return {
    feed: `${address}/feed.json`,
    key,
    publish,
    requests,
    start,
    pictures: process.env.SCREENSHOTS || fileURLToPath(new URL('../.e2e/', import.meta.url)),
    program: async () => (await readFile(join(lib, 'headroom'))).subarray(0, 64).toString('latin1'),
    end: async () => {
      await quit('SIGKILL');
      publisher.closeAllConnections();
      await new Promise((resolve) => publisher.close(resolve));
      await rm(home, { recursive: true, force: true, maxRetries: 30, retryDelay: 100 });
    },
  };
}

const script = (version) =>
  `#!/bin/sh
if [ "$1" = --version ]; then echo "headroom v${version}"; exit; fi
exec "$(dirname "$0")/headroom-real" "$@"
`;
