// RUN: vk-opt --split-phases %s | filecheck %s
// What a phase loads twice from a tensor that nothing writes is loaded once; each phase loads for itself, and what is
// written is loaded as often as it is read.

vk.kernel @normed(%x: !vk.tensor<[M, K], f32>, %y: !vk.tensor<[M, K], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %K = vk.size K
  vk.whole k < %K
  %a = vk.load %x[i, k] : !vk.tensor<[M, K], f32> -> tensor<?x?xf32, #vk.axes<i, k>>
  %b = vk.load %x[i, k] : !vk.tensor<[M, K], f32> -> tensor<?x?xf32, #vk.axes<i, k>>
  %c = arith.mulf %a, %b : tensor<?x?xf32, #vk.axes<i, k>>
  %s = vk.sum %c along k : tensor<?x?xf32, #vk.axes<i, k>> -> tensor<?xf32, #vk.axes<i>>
  %t = vk.broadcast %s : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, k>>
  %d = vk.load %x[i, k] : !vk.tensor<[M, K], f32> -> tensor<?x?xf32, #vk.axes<i, k>>
  %e = arith.divf %d, %t : tensor<?x?xf32, #vk.axes<i, k>>
  %f = vk.load %y[i, k] : !vk.tensor<[M, K], f32> -> tensor<?x?xf32, #vk.axes<i, k>>
  %g = vk.load %y[i, k] : !vk.tensor<[M, K], f32> -> tensor<?x?xf32, #vk.axes<i, k>>
  %h = arith.addf %f, %g : tensor<?x?xf32, #vk.axes<i, k>>
  %o = arith.addf %e, %h : tensor<?x?xf32, #vk.axes<i, k>>
  vk.store %o in %y[i, k] : !vk.tensor<[M, K], f32> <- tensor<?x?xf32, #vk.axes<i, k>>
}

// CHECK:      vk.phase "s"
// CHECK-NEXT:   %[[A:.*]] = vk.load %x[i, k]
// CHECK-NEXT:   arith.mulf %[[A]], %[[A]] :
// CHECK:      vk.phase
// CHECK:        vk.load %x[i, k]
// CHECK:        vk.load %y[i, k]
// CHECK-NEXT:   vk.load %y[i, k]
// CHECK-NOT:  vk.load
