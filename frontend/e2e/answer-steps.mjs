// The end-to-end steps of the Chat page: answers. chat-steps.mjs has the list of conversations.
import assert from 'node:assert/strict';
import {
  shortText,
  longText,
  text,
  until,
  goTo,
  ready,
  ask,
  finished,
  setThinking,
} from './helpers.mjs';

export const answerSteps = [
  [
    'Chat streams an answer with its statistics',
    async ({ page, shot }) => {
      await page.keyboard.press('Control+2');
      await page.getByRole('heading', { name: /^Ask / }).waitFor();
      await shot('chat-empty-light');
      await setThinking(page, false);
      const answer = await ask(page, 'What is 76 - 27?');
      await finished(answer);
      assert.match(await answer.locator('.markdown').innerText(), /\b49\b/);
      assert.equal(
        await answer.getByTestId('reasoning').count(),
        0,
        'no reasoning with thinking off',
      );
      assert.match(
        await answer.getByTestId('stats').innerText(),
        /tokens?[\s\S]*reused[\s\S]*first token in/,
      );
    },
  ],

  [
    'reasoning is folded, and its length is shown',
    async ({ page, shot }) => {
      await setThinking(page, true);
      const answer = await ask(page, 'What is 58 - 19?');
      await finished(answer);
      const reasoning = answer.getByTestId('reasoning');
      assert.equal(await reasoning.getAttribute('open'), null, 'folded');
      assert.match(await reasoning.locator('summary').innerText(), /Thought, ~?\d+ tokens?, /);
      await reasoning.locator('summary').click();
      assert.ok((await reasoning.locator('.text').innerText()).length > 0);
      assert.match(await answer.locator('.markdown').last().innerText(), /\b39\b/);
      await shot('chat-light');
      await setThinking(page, false);
    },
  ],

  [
    'an answer can be copied and retried',
    async ({ page, copied }) => {
      const answer = page.getByTestId('answer').first();
      const said = (await answer.locator('.markdown').innerText()).trim();
      await answer.getByRole('button', { name: 'Copy: answer' }).click();
      await until('the answer is on the clipboard', async () => (await copied()).trim() === said);
      await answer.getByRole('button', { name: 'Retry', exact: true }).click();
      const again = page.getByTestId('answer').first();
      await finished(again);
      assert.equal(await page.getByTestId('answer').count(), 1, 'later messages are removed');
      assert.match(await again.locator('.markdown').innerText(), /\b49\b/);
    },
  ],

  [
    'Escape stops a running answer',
    async ({ page, context }) => {
      await page.getByRole('button', { name: 'New chat' }).click();
      // The demo model writes faster than a test can react. The page itself presses the key, and
      // the connection is throttled, so the answer arrives in several pieces.
      const line = await context.newCDPSession(page);
      const slow = (bytesPerSecond) =>
        line.send('Network.emulateNetworkConditions', {
          offline: false,
          latency: 0,
          downloadThroughput: bytesPerSecond,
          uploadThroughput: -1,
        });
      await slow(20_000);
      await page.evaluate(() => {
        const observer = new MutationObserver(() => {
          const answer = document.querySelector('[data-testid="answer"] .markdown');
          if (!answer || answer.textContent.length < 10) return;
          observer.disconnect();
          window.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }));
        });
        observer.observe(document.body, { subtree: true, childList: true, characterData: true });
      });
      const answer = await ask(page, shortText);
      await finished(answer);
      await slow(-1);
      await line.detach();
      assert.match(await answer.innerText(), /Stopped\./);
      assert.ok(
        (await answer.locator('.markdown').innerText()).length >= 10,
        'the text of the stopped answer stays',
      );
      assert.match(await answer.getByTestId('stats').innerText(), /~\d+ tokens/);
    },
  ],

  [
    'Stop ends the prefill of a long prompt, and the engine is idle again',
    async ({ page, shot }) => {
      await page.getByRole('button', { name: 'New chat' }).click();
      const answer = await ask(page, longText());
      await answer.getByText(/Prefill, [\d,]+ of [\d,]+ tokens/).waitFor();
      await shot('chat-reading-light');
      await page.getByTestId('stop').click();
      await finished(answer);
      assert.match(await answer.innerText(), /Stopped\./);
      await goTo(page, 'Overview');
      await until(
        'no request is active',
        async () => (await page.getByTestId('request').count()) === 0,
      );
      await ready(page);
    },
  ],

  [
    'a request is shown and cancelled on Overview',
    async ({ page, shot }) => {
      await goTo(page, 'Chat');
      await page.getByRole('button', { name: 'New chat' }).click();
      await ask(page, longText());
      await goTo(page, 'Overview');
      const request = page.getByTestId('request');
      await request.getByText('Prefill').waitFor();
      assert.match(await text(page, 'state'), /^Busy, /);
      await shot('overview-busy-light');
      await request.getByRole('button', { name: 'Cancel' }).click();
      await until('the request is gone', async () => (await request.count()) === 0);
      await ready(page);
      await goTo(page, 'Chat');
      const answer = page.getByTestId('answer').last();
      await finished(answer);
      assert.match(await answer.innerText(), /Stopped\./);
    },
  ],

  [
    'conversations survive a reload and can be deleted',
    async ({ page }) => {
      await goTo(page, 'Chat');
      const list = page.getByRole('list', { name: 'Conversations' }).getByRole('listitem');
      const before = await list.count();
      assert.ok(before >= 3, `${before} conversations`);
      await page.reload();
      await until('the list is back', async () => (await list.count()) === before);
      await list.first().hover();
      await list
        .first()
        .getByRole('button', { name: /^Delete/ })
        .click();
      await until('one fewer', async () => (await list.count()) === before - 1);
    },
  ],
];
