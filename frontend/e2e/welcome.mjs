// The end-to-end steps of the welcome. The first one uses the keyboard alone. They run first,
// because a first start happens only once.
import assert from 'node:assert/strict';
import { control, goTo, until } from './helpers.mjs';
import { startHub } from './hub.mjs';
import { lookEverywhere } from './looks.mjs';

const own = (server) => server.kill && !server.isFake;
const welcome = (page) => page.getByRole('dialog', { name: 'Welcome to Headroom' });
const ready = (page) => page.getByRole('dialog', { name: 'Ready to chat' });

/** Resolves as soon as the answer has a word. */
const firstToken = (page) =>
  page.waitForFunction(
    () => /\p{L}|\d/u.test(document.querySelector('[data-testid="answer"] .markdown')?.textContent),
    null,
    { polling: 10, timeout: 60_000 },
  );

async function showAgain(page) {
  await page
    .getByRole('navigation', { name: 'Pages' })
    .getByRole('button', { name: 'Settings' })
    .click();
  await page.getByRole('button', { name: 'Show again: the welcome' }).click();
  await welcome(page).waitFor();
}

async function deleteChat(page) {
  await page.getByTestId('stop').waitFor({ state: 'detached', timeout: 60_000 });
  await page
    .getByRole('button', { name: /^Delete: / })
    .first()
    .click();
  await page.getByText(/^Deleted: /).waitFor();
}

const seconds = (ms) => `${(ms / 1000).toFixed(1)} s`;

export const welcomeSteps = [
  [
    'from launch to the first token with three keys, without a network',
    async ({ page, server, report }) => {
      if (!own(server)) return 'needs a server of our own';
      await control(server, 'PUT', 'hub', { endpoint: 'http://127.0.0.1:9' });
      const openedAt = performance.now();
      await page.goto(server.url);
      await welcome(page).waitFor();
      await page.keyboard.press('Enter');
      await ready(page).waitFor();
      assert.match(
        await page.getByTestId('welcome-ready').innerText(),
        /headroom-demo (is ready|starts)|Loading headroom-demo[^]*It is a toy/,
      );
      await page.keyboard.press('Enter');
      await ready(page).waitFor({ state: 'detached' });
      await page.getByTestId('demo').waitFor();
      await page.keyboard.type('What is a KV cache?');
      await page.keyboard.press('Enter');
      await firstToken(page);
      const launched = performance.now() - server.startedAt;
      report(
        `first token ${seconds(performance.now() - openedAt)} after the window opened, ` +
          `${seconds(launched)} after the launch, with 3 keys`,
      );
      assert.ok(launched < 120_000);
      await deleteChat(page);
      await page.reload();
      await page.getByRole('textbox', { name: 'Message' }).waitFor();
      await page.waitForTimeout(300); // the settings have been read
      assert.equal(await page.getByRole('dialog').count(), 0, 'it is shown once');
    },
  ],

  [
    'the welcome at every size; a download without a network says why',
    async ({ page, server, shot }) => {
      if (!own(server)) return 'needs a server of our own';
      await showAgain(page);
      const offers = page.getByTestId('suggestion');
      await offers.first().waitFor();
      assert.equal(await offers.count(), 3);
      const figures = [
        /~[\d.]+ [GM]B to download, ~[\d.]+ tok\/s, apache-2\.0/,
        /Needs ~[\d.]+ [GM]B\s+(Fits|Tight|Does not fit)\s+Download/,
      ];
      for (const text of await offers.allInnerTexts())
        for (const figure of figures) assert.match(text, figure);
      await lookEverywhere(page, shot, 'welcome-1');
      await offers.last().getByRole('button').press('Enter');
      await page.keyboard.press('Shift+Tab');
      await page.getByRole('button', { name: 'Next' }).press('Enter');
      await ready(page).waitFor();
      const download = page.getByTestId('welcome-download');
      await download.getByText(/cannot be reached\. Nothing answers at its address/).waitFor();
      assert.match(await page.getByTestId('welcome-endpoint').innerText(), /^http:\/\/.+\/v1$/);
      await lookEverywhere(page, shot, 'welcome-2');
      await page.keyboard.press('Escape');
      await ready(page).waitFor({ state: 'detached' });
      await goTo(page, 'Models');
      await page
        .getByRole('button', { name: /^Discard: / })
        .first()
        .click();
      // Nothing has come, so there is no question.
      await page.getByTestId('job').waitFor({ state: 'detached' });
    },
  ],

  [
    'a model of the welcome is downloaded, starts by itself, and answers: four clicks',
    async ({ page, server, shot, report }) => {
      if (!own(server)) return 'needs a server of our own';
      const hub = await startHub('tiny/Welcome-4bit');
      try {
        await control(server, 'PUT', 'hub', { endpoint: hub.url });
        await showAgain(page);
        const offer = page.getByTestId('suggestion').last();
        await offer.waitFor();
        const startedAt = performance.now();
        const name = await offer.locator('.name').innerText();
        await offer.getByRole('button', { name: /^Download / }).click(); // 1
        await page.getByRole('button', { name: 'Next' }).click(); // 2
        await ready(page).waitFor();
        await page
          .getByTestId('welcome-ready')
          .getByText(`${name} is ready.`)
          .waitFor({ timeout: 60_000 });
        const readyAt = performance.now();
        await shot('welcome-3-light');
        await page.getByRole('button', { name: 'Open Chat' }).click(); // 3
        await page.getByRole('heading', { name: `Ask ${name}` }).waitFor();
        assert.equal(await page.getByTestId('demo').count(), 0, 'it is no demo model');
        await page.getByRole('button', { name: 'Explain how a heat pump works.' }).click(); // 4
        await firstToken(page);
        report(
          `11 MB downloaded and loaded in ${seconds(readyAt - startedAt)}, first token after ` +
            `${seconds(performance.now() - startedAt)}, with 4 clicks`,
        );
        await page.keyboard.press('Escape');
        await deleteChat(page);
        const id = encodeURIComponent(`mlx-community/${name}`);
        await control(server, 'POST', 'engine/start', { model: 'headroom-demo' });
        await control(server, 'POST', 'engine/stop', { model: `mlx-community/${name}` });
        await until('the model can be removed', async () => {
          const gone = await control(server, 'POST', `models/${id}/remove`, {}).catch(() => 'no');
          return gone !== 'no';
        });
        await goTo(page, 'Models');
        await page.getByRole('button', { name: /^Dismiss: mlx-community/ }).click();
        await page.getByTestId('arrival').waitFor({ state: 'detached' });
        // Without this, the next address differs only in its fragment, and the page would not
        // reload.
        await page.goto('about:blank');
      } finally {
        await control(server, 'PUT', 'hub', { endpoint: '' });
        hub.close();
      }
    },
  ],
];
