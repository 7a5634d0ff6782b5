// The zoom of Headroom's window. A browser zooms its pages itself.
import { zoomWindow } from './host';

export const levels = [0.75, 0.9, 1, 1.1, 1.25, 1.5, 1.75, 2] as const;
const key = 'headroom.zoom';

export function storedZoom(storage: Storage): number {
  const stored = Number(storage.getItem(key));
  return levels.find((level) => level === stored) ?? 1;
}

/** The next level above or below; the same one at the end. */
export function nextZoom(now: number, by: 1 | -1): number {
  const at = levels.findIndex((level) => level === now);
  return levels[Math.max(0, Math.min(at + by, levels.length - 1))] ?? 1;
}

/** Zooms the page and keeps that. Where the window cannot, the style sheet does it. */
export async function setZoom(storage: Storage, factor: number): Promise<void> {
  storage.setItem(key, String(factor));
  const root = document.documentElement.style;
  if (await zoomWindow(factor)) root.removeProperty('--zoom');
  else root.setProperty('--zoom', String(factor));
}
