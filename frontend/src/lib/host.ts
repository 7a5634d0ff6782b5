// The features of the window, each detected separately: Wails sets `runtime` on window, a browser
// does not. No other file knows the difference.

interface WailsRuntime {
  BrowserOpenURL?(url: string): void;
  ClipboardSetText?(text: string): Promise<boolean>;
  OnFileDrop?(take: (x: number, y: number, paths: string[]) => void, onlyOnTargets: boolean): void;
  OnFileDropOff?(): void;
  Quit?(): void;
  EventsOn?(name: string, take: (text: string) => void): () => void;
}

/** The methods of the window program (main.go, frame.go). */
interface WindowProgram {
  main?: {
    Dialogs?: {
      ChooseFolder?(): Promise<string>;
      ChooseSamples?(): Promise<string>;
      SaveText?(name: string, text: string): Promise<string>;
    };
    Frame?: {
      Place?(): Promise<string>;
      SetDark?(dark: boolean): Promise<void>;
      SetZoom?(factor: number): Promise<boolean>;
    };
    Dock?: { SetBadge?(text: string): Promise<void> };
  };
}

function program(): WindowProgram | undefined {
  return (window as { go?: WindowProgram }).go;
}

function runtime(): WailsRuntime | undefined {
  return (window as { runtime?: WailsRuntime }).runtime;
}

/** Copies a text. Resolves to false if that is not allowed. */
export async function copyText(text: string): Promise<boolean> {
  try {
    if (runtime()?.ClipboardSetText) return (await runtime()?.ClipboardSetText?.(text)) ?? false;
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text);
      return true;
    }
  } catch {
    // Without permission or focus, copying a selection may still work.
  }
  return copyBySelection(text);
}

function copyBySelection(text: string): boolean {
  const field = document.createElement('textarea');
  field.value = text;
  field.style.cssText = 'position:fixed;opacity:0';
  document.body.append(field);
  field.select();
  try {
    return document.execCommand('copy');
  } finally {
    field.remove();
  }
}

/** Opens a link in the browser instead of in the app's window. */
export function followLink(event: MouseEvent): void {
  const link = (event.target as Element | null)?.closest?.('a[href^="http"]');
  const open = runtime()?.BrowserOpenURL;
  if (!link || !open) return;
  event.preventDefault();
  open((link as HTMLAnchorElement).href);
}

/**
 * Calls `take` with the paths of files dropped on the window, until the returned function is
 * called. Returns null in a browser, which does not reveal paths.
 */
export function onFileDrop(take: (paths: string[]) => void): (() => void) | null {
  const host = runtime();
  if (!host?.OnFileDrop) return null;
  host.OnFileDrop((_x, _y, paths) => {
    if (paths.length > 0) take(paths);
  }, false);
  return () => host.OnFileDropOff?.();
}

/** Whether the window itself takes dropped files, and says so (DropTarget). */
export function takesDrops(): boolean {
  return runtime()?.OnFileDrop !== undefined;
}

/**
 * Whether the page gets the files that are dropped on it. In the Mac's window the system keeps them
 * and reports only their paths (main.go).
 */
export const dropsReachPage = () => !takesDrops() || commandKey !== '⌘';

/** Shows a text on the window's icon in the Dock; empty: none. A browser has no such icon. */
export function setDockBadge(text: string): void {
  void program()?.main?.Dock?.SetBadge?.(text);
}

/** Whether the system's dialog for a folder can be shown. */
export function canChooseFolder(): boolean {
  return program()?.main?.Dialogs?.ChooseFolder !== undefined;
}

/** Opens the system's folder dialog. Resolves to the chosen folder, or to '' if none was chosen. */
export async function chooseFolder(): Promise<string> {
  return (await program()?.main?.Dialogs?.ChooseFolder?.()) ?? '';
}

/** Opens the system's dialog for a JSONL file. Resolves to its path, or to '' if there is none. */
export async function chooseSamples(): Promise<string> {
  return (await program()?.main?.Dialogs?.ChooseSamples?.()) ?? '';
}

/**
 * Saves a text as a file. The Wails window asks with the system's save dialog, because WebKit does
 * not download there; a browser downloads the file. Returns the path, or '' when it is unknown or
 * the dialog was cancelled. Throws the system's error.
 */
export async function saveText(name: string, text: string): Promise<string> {
  const dialogs = program()?.main?.Dialogs;
  if (dialogs?.SaveText) return dialogs.SaveText(name, text);
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type: 'text/plain' }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
  return '';
}

/**
 * Whether a drag carries files. WebKitGTK reports files in the old way: as a list of addresses, or
 * as nothing at all while they hover. A drag of the page's own text always reports a type.
 */
export function bringsFiles(event: DragEvent): boolean {
  const types = event.dataTransfer?.types ?? [];
  return types.length === 0 || types.includes('Files') || types.includes('text/uri-list');
}

/** A file dropped on the page must not replace it (WebKitGTK would navigate there). */
export function refuseDrops(target: EventTarget): void {
  for (const name of ['dragenter', 'dragover', 'drop']) {
    target.addEventListener(name, (event) => {
      if (bringsFiles(event as DragEvent)) event.preventDefault();
    });
  }
}

/**
 * Whether a key belongs to an input method, which puts characters together. WebKit ends that before
 * the key that confirms it, whose keyCode is then 229.
 */
export const composing = (event: KeyboardEvent) => event.isComposing || event.keyCode === 229;

/** "⌘" on Apple's keyboards, "Ctrl+" elsewhere. */
export const commandKey = /Mac|iPhone|iPad/.test(navigator.platform) ? '⌘' : 'Ctrl+';

/** Whether the page is in Headroom's window, not in a browser. */
export const inWindow = () => program()?.main?.Frame !== undefined;

/** Whether it is in the Mac's window, which has the menus of the menu bar. */
export const inMacWindow = () => inWindow() && commandKey === '⌘';

/** Calls `take` with each command of the window's menus, until the returned function is called. */
export function onWindowCommand(take: (command: string) => void): () => void {
  return runtime()?.EventsOn?.('headroom:command', take) ?? (() => {});
}

/** Calls `take` with each place that the menu-bar menu opens: a fragment such as "page=models". */
export function onWindowPlace(take: (place: string) => void): () => void {
  return runtime()?.EventsOn?.('headroom:place', take) ?? (() => {});
}

/** The place where the window begins; empty: where it was left. */
export async function firstPlace(): Promise<string> {
  try {
    return (await program()?.main?.Frame?.Place?.()) ?? '';
  } catch {
    return '';
  }
}

/** Tells the window whether the page is dark, for its colour before the next first paint. */
export function tellDark(dark: boolean): void {
  void program()?.main?.Frame?.SetDark?.(dark);
}

/** Zooms the window's page. Resolves to false where the system cannot. */
export async function zoomWindow(factor: number): Promise<boolean> {
  return (await program()?.main?.Frame?.SetZoom?.(factor)) ?? false;
}

/** Closes the window. */
export function closeWindow(): void {
  runtime()?.Quit?.();
}
