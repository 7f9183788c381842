// RUN: vk-opt %s | filecheck %s
// RUN: vk-opt %s | vk-opt | filecheck %s
// RUN: vk-opt %s --print-op-generic | vk-opt | filecheck %s
// Accesses read as an author writes them: a sum of positions and one offset a dimension, then what is inactive.

// CHECK-LABEL: vk.kernel @loads_and_stores
vk.kernel @loads_and_stores(%x: !vk.tensor<[M, N], f32>, %column: !vk.tensor<[M], i32>) {
  %M = vk.size M
  vk.tile i < %M
  vk.whole j < %M
  vk.whole "the k" < %M
  %zero = arith.constant 0 : i64
  %on = arith.constant true

  // CHECK:         %a = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %a = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  // The tile's axes may stand in another order than the dimensions.
  // CHECK-NEXT:    %b = vk.load %x[%M + 2 * j + i, -1 * "the k"] {note} : !vk.tensor<[M, N], f32> -> tensor<?x?x?xf32, #vk.axes<"the k", j, i>>
  %b = vk.load %x[2 * j + %M + i, -1 * "the k"] {note} : !vk.tensor<[M, N], f32> -> tensor<?x?x?xf32, #vk.axes<"the k", j, i>>
  // CHECK-NEXT:    %c = vk.load %x[%zero, 0] where %on : !vk.tensor<[M, N], f32> -> f32
  %c = vk.load %x[%zero, 0] where %on : !vk.tensor<[M, N], f32> -> f32
  // CHECK-NEXT:    %mask = vk.below i < %M
  // CHECK-NEXT:    %d = vk.load %x[i, 0] within (i < %M) where %mask guarding [0, 1] : !vk.tensor<[M, N], f32> -> tensor<?xf32, #vk.axes<i>>
  %mask = vk.below i < %M : tensor<?xi1, #vk.axes<i>>
  %d = vk.load %x[i, 0] within (i < %M) where %mask guarding [0, 1] : !vk.tensor<[M, N], f32> -> tensor<?xf32, #vk.axes<i>>

  // CHECK-NEXT:    vk.store %d in %x[i, %zero] : !vk.tensor<[M, N], f32> <- tensor<?xf32, #vk.axes<i>>
  vk.store %d in %x[i, %zero] : !vk.tensor<[M, N], f32> <- tensor<?xf32, #vk.axes<i>>
  // CHECK-NEXT:    vk.store %a atomic add in %x[i, j] within (i < %M, j < %M) {note} : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %a atomic add in %x[i, j] within (i < %M, j < %M) {note} : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>

  // CHECK-NEXT:    %at = vk.load %column[i]
  // CHECK-NEXT:    %e = vk.gather %x[%at + j, %zero] within (j < %M) guarding [0] : !vk.tensor<[M, N], f32>, (tensor<?xi32, #vk.axes<i>>, i64) -> tensor<?x?xf32, #vk.axes<i, j>>
  %at = vk.load %column[i] : !vk.tensor<[M], i32> -> tensor<?xi32, #vk.axes<i>>
  %e = vk.gather %x[%at + j, %zero] within (j < %M) guarding [0] : !vk.tensor<[M, N], f32>, (tensor<?xi32, #vk.axes<i>>, i64) -> tensor<?x?xf32, #vk.axes<i, j>>
  // CHECK-NEXT:    %soon = vk.prefetch %x[%at + j, %zero] : !vk.tensor<[M, N], f32>, (tensor<?xi32, #vk.axes<i>>, i64) -> tensor<?x?xf32, #vk.axes<i, j>>
  %soon = vk.prefetch %x[%at + j, %zero] : !vk.tensor<[M, N], f32>, (tensor<?xi32, #vk.axes<i>>, i64) -> tensor<?x?xf32, #vk.axes<i, j>>
  // CHECK-NEXT:    vk.scatter %e atomic max in %x[%at, j] : !vk.tensor<[M, N], f32>, (tensor<?xi32, #vk.axes<i>>) <- tensor<?x?xf32, #vk.axes<i, j>>
  vk.scatter %e atomic max in %x[%at, j] : !vk.tensor<[M, N], f32>, (tensor<?xi32, #vk.axes<i>>) <- tensor<?x?xf32, #vk.axes<i, j>>
  // A fetch gives what was there before; its offsets may be tiles, but need not be.
  // CHECK-NEXT:    %before = vk.fetch %e atomic add in %x[%at, j] : !vk.tensor<[M, N], f32>, (tensor<?xi32, #vk.axes<i>>) <- tensor<?x?xf32, #vk.axes<i, j>>
  // CHECK-NEXT:    %was = vk.fetch %a atomic compare with %e in %x[i, j] : !vk.tensor<[M, N], f32>, () <- tensor<?x?xf32, #vk.axes<i, j>>
  %before = vk.fetch %e atomic add in %x[%at, j] : !vk.tensor<[M, N], f32>, (tensor<?xi32, #vk.axes<i>>) <- tensor<?x?xf32, #vk.axes<i, j>>
  %was = vk.fetch %a atomic compare with %e in %x[i, j] : !vk.tensor<[M, N], f32>, () <- tensor<?x?xf32, #vk.axes<i, j>>
}

// Scratchpad and buffers are addressed like tensors; mapped, sizes are constants.
// CHECK-LABEL: vk.mapped @mapped
vk.mapped @mapped(%x: !vk.tensor<[M], f32>) {
  %M = vk.size M
  %packed = vk.buffer "packed"[%M] : !vk.buffer<[?, 4], f32>
  vk.launch "copy" over (%p = %M) {
    %one = vk.scratch "one" : !vk.scratch<[], f32>
    // CHECK:       %a = vk.load %packed[%p, i] : !vk.buffer<[?, 4], f32> -> tensor<4xf32, #vk.axes<i>>
    // CHECK-NEXT:  %b = vk.load %one[] : !vk.scratch<[], f32> -> f32
    // CHECK-NEXT:  vk.store %b in %one[] : !vk.scratch<[], f32> <- f32
    %a = vk.load %packed[%p, i] : !vk.buffer<[?, 4], f32> -> tensor<4xf32, #vk.axes<i>>
    %b = vk.load %one[] : !vk.scratch<[], f32> -> f32
    vk.store %b in %one[] : !vk.scratch<[], f32> <- f32
  }
}
