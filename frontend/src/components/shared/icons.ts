// The SVG paths of the icons, on a 16 px grid.
export const iconPaths = {
  gauge: 'M2.5 11.5a5.5 5.5 0 1 1 11 0M8 11.5l2.6-3.6',
  chat: 'M2.5 4.5a2 2 0 0 1 2-2h7a2 2 0 0 1 2 2v4a2 2 0 0 1-2 2H7l-3 2.5v-2.6a2 2 0 0 1-1.5-1.9z',
  copy: 'M5.5 5.5v-2a1 1 0 0 1 1-1h6a1 1 0 0 1 1 1v6a1 1 0 0 1-1 1h-2M3.5 5.5h6a1 1 0 0 1 1 1v6a1 1 0 0 1-1 1h-6a1 1 0 0 1-1-1v-6a1 1 0 0 1 1-1z',
  check: 'M3 8.5l3.2 3.2L13 4.8',
  retry: 'M13 8a5 5 0 1 1-1.6-3.7M13 2.6v2.9h-2.9',
  plus: 'M8 3v10M3 8h10',
  trash: 'M2.8 4.5h10.4M6.3 4.5v-1.7h3.4v1.7M4.2 4.5l.6 8.7h6.4l.6-8.7M6.7 7v4M9.3 7v4',
  send: 'M8 13V3.2M3.8 7.2L8 3l4.2 4.2',
  stop: 'M4.5 4.5h7v7h-7z',
  chevron: 'M6 4l4 4-4 4',
  warning: 'M8 2.4l6.2 11H1.8zM8 6.5v3.2M8 11.4v.6',
  thought: 'M8 2.2a4.1 4.1 0 0 0-2.3 7.5v1.6h4.6V9.7A4.1 4.1 0 0 0 8 2.2zM6.2 13.6h3.6',
  list: 'M2.5 4h11M2.5 8h11M2.5 12h7',
  close: 'M4 4l8 8M12 4l-8 8',
  disk: 'M2.5 5c0-1.4 2.5-2.4 5.5-2.4s5.5 1 5.5 2.4v6c0 1.4-2.5 2.4-5.5 2.4S2.5 12.4 2.5 11zM2.5 5c0 1.4 2.5 2.4 5.5 2.4s5.5-1 5.5-2.4M2.5 8c0 1.4 2.5 2.4 5.5 2.4s5.5-1 5.5-2.4',
  models: 'M8 2.2l5.2 2.9v5.8L8 13.8l-5.2-2.9V5.1zM2.9 5.2L8 8l5.1-2.8M8 8v5.7',
  memory: 'M2.5 5.5h11v5h-11zM5 5.5v-2M8 5.5v-2M11 5.5v-2M5 12.5v-2M8 12.5v-2M11 12.5v-2',
  folder:
    'M2.5 4.5v7.2a1 1 0 0 0 1 1h9a1 1 0 0 0 1-1V6.2a1 1 0 0 0-1-1H8.2L6.8 3.5H3.5a1 1 0 0 0-1 1z',
  start: 'M5 3.2v9.6l7.5-4.8z',
  pin: 'M6 2.5h4M6.7 2.5v4L4.5 9h7L9.3 6.5v-4M8 9v4.5',
  sliders: 'M2.5 5h6M11.5 5h2M8.5 3.2v3.6h3V3.2zM2.5 11h2M7.5 11h6M4.5 9.2v3.6h3V9.2z',
  edit: 'M3 13l.6-2.8 6.9-6.9 2.2 2.2-6.9 6.9zM9.3 4.5l2.2 2.2',
  branch: 'M4.5 2.5v11M4.5 9.5c4 0 6.5-1 6.5-4M11 5.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3z',
  lock: 'M4 7.5h8v6H4zM5.8 7.5V5.2a2.2 2.2 0 0 1 4.4 0v2.3',
};

/** The name of an icon, as <Icon name> takes it. */
export type IconName = keyof typeof iconPaths;
