// Libraries that stand before these scripts, as far as they are used.
declare const VirtualCore: {
  Virtualizer: new (options: object) => {
    _didMount(): () => void;
    _willUpdate(): void;
    setOptions(options: object): void;
    getVirtualItems(): { index: number; start: number }[];
  };
  windowScroll: unknown;
  observeWindowRect: unknown;
  observeWindowOffset: unknown;
};
declare const hljs: { highlight(text: string, options: { language: string; ignoreIllegals: boolean }): { _emitter: { root: unknown } } };
