// The commands of the whole window: its keys, the rows of the Mac's menus (menu.go) and of the
// palette run them.
import { tick } from 'svelte';
import { closeWindow, inMacWindow, inWindow } from './lib/host';
import type { ChatStore } from './lib/stores/chat.svelte';
import type { Router } from './lib/stores/router.svelte';
import { nextZoom, setZoom, storedZoom } from './lib/zoom';
import type { Page } from './pages';

/** What commands work on. */
export interface WindowParts {
  chat: ChatStore;
  router: Router;
  storage: Storage;
  togglePalette: () => void;
}

export const windowCommands: Record<string, (parts: WindowParts) => unknown> = {
  'new-chat': ({ chat, router }) => newChat(chat, router, false),
  'new-private-chat': ({ chat, router }) => newChat(chat, router, true),
  download: ({ router }) => press(router, 'models', 'download'),
  import: ({ router }) => press(router, 'models', 'import'),
  'clear-cache': ({ router }) => press(router, 'cache', 'clear-cache'),
  find: () => find(),
  palette: ({ togglePalette }) => togglePalette(),
  'zoom-in': ({ storage }) => setZoom(storage, nextZoom(storedZoom(storage), 1)),
  'zoom-out': ({ storage }) => setZoom(storage, nextZoom(storedZoom(storage), -1)),
  'zoom-reset': ({ storage }) => setZoom(storage, 1),
  close: () => closeWindow(),
};

/** Runs a command: one of the table, or page-ID. */
export function runWindowCommand(command: string, parts: WindowParts): void {
  const page = /^page-(.+)$/.exec(command)?.[1];
  if (page) goTo(parts.router, page);
  else void windowCommands[command]?.(parts);
}

/** Goes to a page and moves the focus there, so that a screen reader says its name. */
export function goTo(router: Router, page: string): void {
  const main = document.querySelector('main');
  // Before the page leaves, or the focus would go to a neighbour of the control that had it.
  if (router.page !== page) main?.focus();
  router.go(page);
  setTimeout(() => {
    if (main && !main.contains(document.activeElement)) main.focus();
  });
}

function newChat(chat: ChatStore, router: Router, isPrivate: boolean): void {
  chat.startNew(isPrivate);
  router.go('chat');
}

/** How long a page may take to show what a command looks for. */
const patienceMs = 3000;

/** The element in the page once it is there; null: it did not come. */
async function appeared<E extends Element>(selector: string): Promise<E | null> {
  const end = Date.now() + patienceMs;
  do {
    await tick();
    const element = document.querySelector<E>(`main ${selector}`);
    if (element) return element;
    await new Promise((resolve) => setTimeout(resolve, 50));
  } while (Date.now() < end);
  return null;
}

/** Presses the button of a page that has data-command. */
async function press(router: Router, page: string, name: string): Promise<void> {
  router.go(page);
  (await appeared<HTMLButtonElement>(`[data-command="${name}"]`))?.click();
}

/** Goes to a page and moves the focus to an element of it, such as a setting. */
export async function show(router: Router, page: string, selector: string): Promise<void> {
  router.go(page);
  let element = await appeared<HTMLElement>(selector);
  // A page that loads what it shows may replace the element, which would lose the focus.
  for (const end = Date.now() + settlingMs; element && Date.now() < end;) {
    if (!document.activeElement?.matches(`main ${selector}`)) {
      if (element.tabIndex < 0) element.tabIndex = -1; // a heading
      element.scrollIntoView?.({ block: 'center' });
      element.focus();
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
    const { activeElement } = document;
    if (activeElement !== document.body && activeElement !== element) return; // a person moved it
    element = document.querySelector<HTMLElement>(`main ${selector}`);
  }
}

/** How long after a change of pages an element may be replaced. */
const settlingMs = 600;

/** The page's search: in the open chat, else the search field. Reports whether there is one. */
function find(): boolean {
  const main = document.querySelector('main');
  const button = main?.querySelector<HTMLButtonElement>('[data-command="find"]');
  if (button && !button.disabled) {
    button.click();
    return true;
  }
  const field = main?.querySelector<HTMLInputElement>('[type="search"]');
  field?.focus();
  field?.select();
  return Boolean(field);
}

/** Keys with Cmd or Ctrl that only Headroom's window takes. A browser has them for itself. */
const windowKeys: Record<string, string> = {
  n: 'new-chat',
  w: 'close',
  '+': 'zoom-in',
  '=': 'zoom-in',
  '-': 'zoom-out',
  '0': 'zoom-reset',
};

/**
 * The command of a key; empty: none. In the Mac's window the menus have the keys: the page must not
 * run a command a second time.
 */
export function commandOf(event: KeyboardEvent, pages: readonly Page[]): string {
  if (!(event.metaKey || event.ctrlKey) || event.altKey || inMacWindow()) return '';
  const key = event.key.toLowerCase();
  if (event.shiftKey) {
    if (key === 'n' && inWindow()) return 'new-private-chat';
    return key === '+' && inWindow() ? 'zoom-in' : '';
  }
  if (key === 'k') return 'palette';
  if (key === 'f') return 'find';
  const page = pages.find((one) => one.key === key);
  if (page) return `page-${page.id}`;
  return inWindow() ? (windowKeys[key] ?? '') : '';
}
