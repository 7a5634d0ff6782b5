// The fake server's settings and log, with the addresses of app/control/general.go.

export function fakeSettings() {
  let kept = {
    port: 11811,
    apiKey: '',
    allowHosts: [],
    modelFolders: [],
    importFolder: '',
    launch: '',
    defaultModel: '',
    idleUnloadMinutes: 0,
    logLevel: 'info',
    startAtLogin: false,
    notifications: true,
    saveOnBattery: true,
    throttleWhenHot: true,
    welcomed: true,
    path: '/home/you/.config/headroom/settings.json',
    readOnly: ['port'],
    needsRestart: [],
  };
  const lines = [
    {
      number: 1,
      at: Date.now() - 9000,
      level: 'INFO',
      message: 'loading',
      fields: 'model=headroom-demo',
    },
    {
      number: 2,
      at: Date.now() - 8000,
      level: 'INFO',
      message: 'model loaded',
      fields: 'model=headroom-demo seconds=0.3',
    },
  ];

  /** [status, document] of a request, or null where there is no such address. */
  return function answer(method, path, query, body) {
    if (path === '/api/logs') {
      const after = Number(query.get('after') ?? 0);
      return [200, { lines: lines.filter(({ number }) => number > after), last: lines.length }];
    }
    if (path !== '/api/settings') return null;
    if (method === 'PUT') kept = { ...kept, ...body };
    return [200, kept];
  };
}
