// The end-to-end steps about conversations on disk. Another browser sees them, a page that closes
// loses nothing, and the list can be edited.
import assert from 'node:assert/strict';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ended } from './helpers.mjs';
import { lookEverywhere, windows } from './looks.mjs';

const list = (page) => page.getByRole('list', { name: 'Conversations' });
const titled = (page, title) => list(page).getByRole('button', { name: title });

async function ask(page, question) {
  await page.getByRole('button', { name: 'New chat' }).click();
  await page.getByRole('textbox', { name: 'Message' }).fill(question);
  await page.keyboard.press('Control+Enter');
}

export const chatSteps = [
  [
    'a private chat is answered, and is gone after a reload',
    async ({ page, server, shot }) => {
      const files = () => (server.chats ? readdir(server.chats).catch(() => []) : []);
      const before = await files();
      await page.keyboard.press('Control+2');
      await page.getByRole('button', { name: 'New private chat' }).click();
      await page.getByRole('heading', { name: 'Private chat' }).waitFor();
      await lookEverywhere(page, shot, 'chat-private', windows);
      await page.getByRole('textbox', { name: 'Message' }).fill('What is 41 - 12?');
      await page.keyboard.press('Control+Enter');
      await ended(page);
      await page.getByText('Private. Nothing of this chat is saved.').waitFor();
      await titled(page, /^What is 41 - 12\?/).waitFor();
      assert.deepEqual(await files(), before);
      const asked = [];
      page.once('dialog', (dialog) => {
        asked.push(dialog.type());
        void dialog.accept();
      });
      await page.reload();
      assert.deepEqual(asked, ['beforeunload']);
      await page.keyboard.press('Control+2');
      await titled(page, /^What is 41 - 12\?/).waitFor({ state: 'detached' });
    },
  ],

  [
    'another browser shows the same conversations and their changes',
    async ({ page, context, server }) => {
      await page.keyboard.press('Control+2');
      await ask(page, 'What is 31 - 12?');
      await ended(page);
      const other = await context.browser().newContext();
      const elsewhere = await other.newPage();
      await elsewhere.goto(`${server.url}&page=chat`);
      await titled(elsewhere, /^What is 31 - 12\?/).click();
      await elsewhere
        .getByTestId('answer')
        .getByText(/\b19\b/)
        .first()
        .waitFor();
      await page.getByRole('textbox', { name: 'Message' }).fill('And 32 - 12?');
      await page.keyboard.press('Control+Enter');
      await elsewhere.getByTestId('question').getByText('And 32 - 12?').waitFor();
      await other.close();
      await page.getByTestId('stop').waitFor({ state: 'detached', timeout: 60_000 });
    },
  ],

  [
    'an answer whose page closes is saved up to that point',
    async ({ page, context, server }) => {
      // The demo model writes faster than a test can react. The page itself navigates away, and the
      // connection is throttled, so the answer arrives in several pieces.
      await page.getByRole('button', { name: 'New chat' }).click();
      await page.getByTestId('answer').first().waitFor({ state: 'detached' });
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
          location.href = 'about:blank';
        });
        observer.observe(document.body, { subtree: true, childList: true, characterData: true });
      });
      const lamps = Array.from(
        { length: 10 },
        (_, i) => `Ada gave lamp ${i} to Ben in the garden.`,
      );
      await ask(page, `Repeat this text:\n\n${lamps.join(' ')}`);
      await page.waitForURL('about:blank');
      await slow(-1);
      await line.detach();
      await page.goto(`${server.url}&page=chat`);
      const answer = page.getByTestId('answer');
      await answer.getByText('Stopped.').waitFor();
      assert.ok(
        (await answer.locator('.markdown').innerText()).length >= 10,
        'the received text is saved',
      );
    },
  ],

  [
    'messages are searched; a conversation is renamed, deleted and restored',
    async ({ page, shot }) => {
      const search = page.getByRole('searchbox', { name: 'Search conversations' });
      await search.fill('AND 32');
      const found = list(page).getByRole('listitem');
      await list(page).getByText('And 32 - 12?').waitFor();
      await lookEverywhere(page, shot, 'chat-search', windows);
      assert.equal(await found.count(), 1);
      await search.fill('nobody said this');
      await list(page).getByText('No chats match.').waitFor();
      await search.press('Escape');
      await page.getByRole('button', { name: 'Rename: What is 31 - 12?' }).click();
      const title = page.getByRole('textbox', { name: 'Title' });
      await title.fill('Subtractions');
      await title.press('Enter');
      await titled(page, /^Subtractions/).click();
      await page.getByTestId('question').getByText('And 32 - 12?').waitFor();
      await page.getByRole('button', { name: 'Delete: Subtractions' }).click();
      await titled(page, /^Subtractions/).waitFor({ state: 'detached' });
      await lookEverywhere(page, shot, 'chat-deleted', windows);
      await page.getByRole('button', { name: 'Undo' }).click();
      await page.getByTestId('question').getByText('And 32 - 12?').waitFor();
      await page.reload();
      await titled(page, /^Subtractions/).click();
      await page.getByTestId('question').getByText('And 32 - 12?').waitFor();
    },
  ],

  [
    'a damaged conversation is shown with its readable messages',
    async ({ page, server, shot }) => {
      if (!server.chats) return 'the test does not know the folder of the conversations';
      const said = JSON.stringify({ id: '1', role: 'user', content: 'This can be read.' });
      const head = JSON.stringify({
        version: 1,
        id: 'broken',
        title: 'A broken one',
        updatedAt: 1,
        revision: 3,
        messages: 2,
        bodyBytes: 999,
      });
      await writeFile(join(server.chats, 'broken.json'), `${head}\n${said}\n{"id":`);
      await titled(page, /^A broken one/).click();
      await page.getByText('This can be read.').waitFor();
      await page.getByText(/file is damaged/).waitFor();
      await lookEverywhere(page, shot, 'chat-damaged', windows);
      await page.getByRole('button', { name: 'Delete: A broken one' }).click();
      // The page removes the line before the server has answered.
      const answered = page.waitForResponse(
        (answer) => answer.request().method() === 'DELETE' && answer.url().endsWith('/broken'),
      );
      await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
      await titled(page, /^A broken one/).waitFor({ state: 'detached' });
      await answered;
      assert.equal((await readdir(server.chats)).includes('broken.json'), false);
      await page.keyboard.press('Control+1');
      await page.getByTestId('state').waitFor();
    },
  ],
];
