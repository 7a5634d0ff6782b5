// The keyboard shortcuts that the sheet lists, by where they apply. A shortcut is one row here,
// with its keys and its text in strings/help.ts.
import { shortcutSheet } from '../strings/help';

type Shortcut = keyof typeof shortcutSheet.keys;

export const shortcuts: Record<keyof typeof shortcutSheet.groups, readonly Shortcut[]> = {
  everywhere: ['palette', 'page', 'settings', 'find', 'shortcuts', 'close'],
  window: ['newChat', 'closeWindow', 'zoom'],
  chat: ['send', 'line'],
  lists: ['move', 'remove', 'trash'],
};
