#ifndef COXSWAIN_KERNELS_CPU_GENERIC_CODES_KERNEL_H_
#define COXSWAIN_KERNELS_CPU_GENERIC_CODES_KERNEL_H_
// The kernel of a format of codes in groups or super-groups. Included inside an anonymous namespace of
// coxswain::kernels, after a set's kPanel, kRowTile, kCodeLayouts, kBlockValues, kFinish and kFinishGate.

template <typename Codes>
LinearKernel codes_kernel(void (*convert_row)(const ConvertArgs*), void (*tile)(const TileArgs*)) {
  LinearKernel kernel{};
  kernel.layout_id = kCodeLayouts + Codes::kId;
  kernel.panel = kPanel;
  kernel.unit_values = Codes::kUnitValues;
  kernel.unit_bytes = Codes::kUnitBytes;
  kernel.k_multiple = 32;
  kernel.group = Codes::kGroup;
  kernel.group_starts = Codes::kStarts;
  kernel.row_tile = kRowTile;
  kernel.k_block = kBlockValues<Codes>;
  kernel.form = kActivationS8;
  kernel.convert_row = convert_row;
  kernel.tile = tile;
  kernel.finish = kFinish;
  kernel.finish_gate = kFinishGate;
  return kernel;
}

#endif  // COXSWAIN_KERNELS_CPU_GENERIC_CODES_KERNEL_H_
